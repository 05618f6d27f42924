#include "comm/memory.h"

#include <utility>

#include "engine/core/error.h"

namespace oxrse::comm {

MirroredMemory::MirroredMemory(DeviceTransport* device, std::int64_t bytes, std::byte value)
    : device_(device), host_(static_cast<std::size_t>(bytes), value), data_(device == nullptr ? host_.data() : device->allocate(bytes)) {
  upload();
}

MirroredMemory::~MirroredMemory() {
  try {
    if (device_ != nullptr) device_->release(data_);
  } catch (const Error&) {  // of a GPU that failed before: that error is on its way
  }
}

MirroredMemory::MirroredMemory(MirroredMemory&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)), host_(std::move(other.host_)), data_(other.data_) {}

void MirroredMemory::upload() {
  if (device_ != nullptr) device_->copy(data_, host_.data(), std::ssize(host_));
}

void MirroredMemory::download() {
  if (device_ != nullptr) device_->copy(host_.data(), data_, std::ssize(host_));
}

}  // namespace oxrse::comm
