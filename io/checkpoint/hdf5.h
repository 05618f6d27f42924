#pragma once

#include <hdf5.h>

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/core/tensor.h"

/// The little of HDF5 that checkpoints need, with failures as Errors that carry the library's own reason.
namespace oxrse::io::hdf5 {

/// Owns an HDF5 identifier.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle(hid_t id, Close how) : id_(id), close_(how) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  Handle& operator=(Handle&&) = delete;
  ~Handle() { close(); }

  [[nodiscard]] hid_t id() const { return id_; }
  /// False when what was still to be written could not be.
  bool close() { return id_ < 0 || close_(std::exchange(id_, H5I_INVALID_HID)) >= 0; }

 private:
  hid_t id_;
  Close close_;
};

/// How files are opened: errors not printed, no locks, large datasets on page borders.
Handle file_access();
Handle open_file(const std::filesystem::path& path);
Handle create_group(const Handle& parent, const std::string& name);
bool exists(const Handle& group, const std::string& name);
Handle open_group(const Handle& parent, const std::string& name);

/// Little-endian element types. bf16 has no type of its own in HDF5, so it is described by its bit fields, which lets any HDF5
/// tool print the values.
Handle type_of(DType type);

/// A contiguous dataset whose place in the file is fixed now and whose bytes are written later, without HDF5.
Handle create_dataset(const Handle& parent, const std::string& name, DType type, std::span<const std::int64_t> sizes);
/// Where the bytes of a contiguous dataset begin in the file; 0 for one without elements.
std::int64_t offset_of(const Handle& dataset);

/// A dataset in chunks that HDF5 shuffles by byte and deflates; of one dimension or more, none of size 0.
Handle create_compressed_dataset(const Handle& parent, const std::string& name, DType type, std::span<const std::int64_t> sizes);
void write_elements(const Handle& dataset, const ConstTensor& elements);
/// Fills `out` with the dataset at `path`; an Error when that has another type or other sizes.
void read_elements(const Handle& file, const std::string& path, const Tensor& out);
/// `name` stands for the object at `path` of another file in the same directory.
void create_external_link(const Handle& parent, const std::string& name, const std::string& file, const std::string& path);

/// UTF-8 text as a scalar dataset.
void write_text(const Handle& parent, const std::string& name, std::string_view text);
std::string read_text(const Handle& parent, const std::string& name);
std::vector<std::string> names_in(const Handle& group);

void set_attribute(const Handle& object, const std::string& name, std::string_view text);
void set_attribute(const Handle& object, const std::string& name, std::span<const std::int64_t> values);
void set_attribute(const Handle& object, const std::string& name, std::int64_t value);

}  // namespace oxrse::io::hdf5
