#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/transport/device.h"

namespace oxrse::comm {

/// Bytes that a rank communicates from, on the host or on its GPU, with a copy on the host where they are on a GPU.
class MirroredMemory {
 public:
  /// On `device`; absent: on the host. All bytes are `value`.
  MirroredMemory(DeviceTransport* device, std::int64_t bytes, std::byte value = {});
  ~MirroredMemory();
  MirroredMemory(MirroredMemory&& other) noexcept;
  MirroredMemory(const MirroredMemory&) = delete;
  MirroredMemory& operator=(const MirroredMemory&) = delete;
  MirroredMemory& operator=(MirroredMemory&&) = delete;

  /// The address that operations take.
  [[nodiscard]] std::byte* data() const { return data_; }
  /// What `upload` puts there and `download` has got from there; the memory itself where that is on the host, and then both do nothing.
  [[nodiscard]] std::vector<std::byte>& host() { return host_; }
  [[nodiscard]] const std::vector<std::byte>& host() const { return host_; }
  void upload();
  void download();

 private:
  DeviceTransport* device_;
  std::vector<std::byte> host_;
  std::byte* data_;
};

}  // namespace oxrse::comm
