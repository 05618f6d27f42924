#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>

#include "io/checkpoint/hdf5.h"
#include "io/file_stream.h"

namespace oxrse::io::hdf5 {

/// A new HDF5 file whose structure is built in memory. Two reasons: the library cannot recover from a write that fails (after a
/// full disk its next close crashes), so it must never write to a disk; and the bytes of tensors, which only get their places
/// here, are then written with plain and fast system calls.
class Image {
 public:
  Image();
  ~Image();
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  [[nodiscard]] const Handle& file() const { return *file_; }
  /// Writes the elements of a compressed dataset straight to the file that `write_to` will be given, so that they take no memory here.
  void write_elements(const Handle& dataset, const ConstTensor& elements, OutputFile& out);
  /// Ends the building; every handle of an object in the file must be gone.
  void finish();
  /// Bytes of the file.
  [[nodiscard]] std::int64_t size() const { return size_; }
  /// Writes what HDF5 wrote, not touching the bytes of the tensors, and gives the file its size. Only after `finish`.
  void write_to(OutputFile& out) const;

 private:
  friend struct ImageDriver;
  static constexpr std::int64_t kBlock = 4096;
  struct Block {
    std::array<std::byte, kBlock> bytes{};
    std::bitset<kBlock> written;
  };

  std::map<std::int64_t, Block> blocks_;  // by index; what was never written reads as zero
  std::int64_t size_ = 0;
  OutputFile* direct_ = nullptr;  // where the bytes of datasets go, while there is one
  std::exception_ptr failure_;    // of writing there, which the library must not see
  std::unique_ptr<Handle> file_;
};

}  // namespace oxrse::io::hdf5
