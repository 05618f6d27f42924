#include "io/checkpoint/hdf5_image.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/core/error.h"

namespace oxrse::io::hdf5 {

namespace {

/// What the library hands to the driver when it opens the file.
struct ImageAccess {
  Image* image;
};

}  // namespace

/// The image as a virtual file driver, https://docs.hdfgroup.org/hdf5/v1_10/_v_f_l.html.
struct ImageDriver {
  H5FD_t common;  // the library's part; must come first
  Image* image;

  static Image& image_of(const H5FD_t* file) { return *reinterpret_cast<const ImageDriver*>(file)->image; }

  static H5FD_t* open(const char* /*name*/, unsigned /*flags*/, hid_t access, haddr_t /*maximum*/) {
    auto* driver = new ImageDriver{};
    driver->image = static_cast<const ImageAccess*>(H5Pget_driver_info(access))->image;
    return &driver->common;
  }
  static herr_t close(H5FD_t* file) {
    delete reinterpret_cast<ImageDriver*>(file);
    return 0;
  }
  static haddr_t get_size(const H5FD_t* file, H5FD_mem_t /*type*/) { return static_cast<haddr_t>(image_of(file).size_); }
  static herr_t set_size(H5FD_t* file, H5FD_mem_t /*type*/, haddr_t size) {
    image_of(file).size_ = static_cast<std::int64_t>(size);
    return 0;
  }

  /// Calls `f(block index, place in the block, place in the transfer, bytes)` for each block that [address, address + size) touches.
  template <class F>
  static void for_each_block(haddr_t address, std::size_t size, F&& f) {
    constexpr auto kBlock = static_cast<std::size_t>(Image::kBlock);
    for (std::size_t done = 0; done < size;) {
      const std::size_t place = (address + done) % kBlock;
      const std::size_t bytes = std::min(kBlock - place, size - done);
      f(static_cast<std::int64_t>((address + done) / kBlock), place, done, bytes);
      done += bytes;
    }
  }
  static herr_t read(H5FD_t* file, H5FD_mem_t /*type*/, hid_t /*transfer*/, haddr_t address, std::size_t size, void* buffer) {
    const auto& blocks = image_of(file).blocks_;
    std::memset(buffer, 0, size);
    for_each_block(address, size, [&](std::int64_t index, std::size_t place, std::size_t done, std::size_t bytes) {
      const auto block = blocks.find(index);
      if (block != blocks.end()) std::memcpy(static_cast<std::byte*>(buffer) + done, block->second.bytes.data() + place, bytes);
    });
    return 0;
  }
  static void write_directly(Image& image, haddr_t address, std::size_t size, const void* buffer) {
    try {
      if (!image.failure_) image.direct_->write_at({static_cast<const std::byte*>(buffer), size}, static_cast<std::int64_t>(address));
    } catch (const Error&) {
      image.failure_ = std::current_exception();
    }
  }
  static herr_t write(H5FD_t* file, H5FD_mem_t type, hid_t /*transfer*/, haddr_t address, std::size_t size, const void* buffer) {
    if (type == H5FD_MEM_DRAW && image_of(file).direct_ != nullptr) {
      write_directly(image_of(file), address, size, buffer);
      return 0;
    }
    auto& blocks = image_of(file).blocks_;
    for_each_block(address, size, [&](std::int64_t index, std::size_t place, std::size_t done, std::size_t bytes) {
      Image::Block& block = blocks[index];
      std::memcpy(block.bytes.data() + place, static_cast<const std::byte*>(buffer) + done, bytes);
      for (std::size_t i = place; i < place + bytes; ++i) block.written.set(i);
    });
    return 0;
  }

  static hid_t registered() {
    static const H5FD_class_t description = [] {
      H5FD_class_t c{};
      c.name = "oxrse image";
      c.maxaddr = static_cast<haddr_t>(INT64_MAX);
      c.fc_degree = H5F_CLOSE_SEMI;  // closing fails while objects are open
      c.fapl_size = sizeof(ImageAccess);
      c.open = open;
      c.close = close;
      c.get_eoa = get_size;
      c.set_eoa = set_size;
      c.get_eof = get_size;
      c.read = read;
      c.write = write;
      const H5FD_mem_t map[] = H5FD_FLMAP_SINGLE;
      std::copy(std::begin(map), std::end(map), c.fl_map);
      return c;
    }();
    static const hid_t id = H5FDregister(&description);
    return id;
  }
};

Image::Image() {
  const Handle access = file_access();
  const ImageAccess self{this};
  require(H5Pset_driver(access.id(), ImageDriver::registered(), &self) >= 0, "HDF5 refuses the driver that writes checkpoints");
  const hid_t id = H5Fcreate("image", H5F_ACC_TRUNC, H5P_DEFAULT, access.id());
  require(id >= 0, "HDF5 cannot create a file in memory");
  file_ = std::make_unique<Handle>(id, H5Fclose);
}

Image::~Image() = default;

void Image::write_elements(const Handle& dataset, const ConstTensor& elements, OutputFile& out) {
  direct_ = &out;
  hdf5::write_elements(dataset, elements);
  H5Dflush(dataset.id());
  direct_ = nullptr;
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Image::finish() { require(file_->close(), "HDF5 cannot finish a file in memory"); }

void Image::write_to(OutputFile& out) const {
  for (const auto& [index, block] : blocks_) {
    for (std::size_t begin = 0; begin < block.written.size();) {
      std::size_t end = begin;
      while (end < block.written.size() && block.written[end]) ++end;
      if (end > begin) out.write_at(std::span(block.bytes).subspan(begin, end - begin), index * kBlock + static_cast<std::int64_t>(begin));
      begin = end + 1;
    }
  }
  out.resize(size_);
}

}  // namespace oxrse::io::hdf5
