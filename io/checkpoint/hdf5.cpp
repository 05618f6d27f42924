#include "io/checkpoint/hdf5.h"

#include <algorithm>
#include <array>
#include <bit>

#include "engine/core/error.h"

namespace oxrse::io::hdf5 {
namespace {

static_assert(std::endian::native == std::endian::little, "the bytes of tensors go to the file as they are in memory");

/// The innermost description on the error stack, which is the most concrete one.
std::string reason() {
  std::string text;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned depth, const H5E_error2_t* entry, void* out) -> herr_t {
        if (depth == 0 && entry->desc != nullptr) *static_cast<std::string*>(out) = entry->desc;
        return 0;
      },
      &text);
  return text.empty() ? "no reason given" : text;
}

Handle checked(hid_t id, Handle::Close how, std::string_view what, std::string_view name) {
  if (id < 0) fail("HDF5 cannot {} {}: {}", what, name, reason());
  return {id, how};
}

void check(bool ok, std::string_view what, std::string_view name) {
  if (!ok) fail("HDF5 cannot {} {}: {}", what, name, reason());
}

Handle simple_space(std::span<const std::int64_t> sizes) {
  std::vector<hsize_t> extents(sizes.begin(), sizes.end());
  if (extents.empty()) return checked(H5Screate(H5S_SCALAR), H5Sclose, "describe", "a scalar");
  return checked(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), H5Sclose, "describe", "sizes");
}

Handle text_type(std::size_t length) {
  Handle type = checked(H5Tcopy(H5T_C_S1), H5Tclose, "describe", "text");
  H5Tset_size(type.id(), std::max<std::size_t>(length, 1));
  H5Tset_strpad(type.id(), H5T_STR_NULLPAD);
  H5Tset_cset(type.id(), H5T_CSET_UTF8);
  return type;
}

void write_attribute(const Handle& object, const std::string& name, const Handle& file_type, hid_t memory_type, const Handle& space,
                     const void* value) {
  const Handle attribute =
      checked(H5Acreate2(object.id(), name.c_str(), file_type.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose, "create", name);
  check(H5Awrite(attribute.id(), memory_type, value) >= 0, "write", name);
}

Handle integer_type() { return checked(H5Tcopy(H5T_STD_I64LE), H5Tclose, "describe", "integers"); }

struct FloatLayout {
  std::size_t exponent_bits, mantissa_bits, bias;
};

Handle half_width_type(const FloatLayout& layout) {
  Handle type = checked(H5Tcopy(H5T_IEEE_F32LE), H5Tclose, "describe", "a 16-bit float");
  H5Tset_fields(type.id(), 15, layout.mantissa_bits, layout.exponent_bits, 0, layout.mantissa_bits);
  H5Tset_precision(type.id(), 16);
  H5Tset_size(type.id(), 2);
  H5Tset_ebias(type.id(), layout.bias);
  return type;
}

Handle dataset_creation() {
  Handle creation = checked(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "prepare", "a dataset");
  H5Pset_layout(creation.id(), H5D_CONTIGUOUS);
  H5Pset_alloc_time(creation.id(), H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(creation.id(), H5D_FILL_TIME_NEVER);
  H5Pset_obj_track_times(creation.id(), false);  // equal states make equal files
  return creation;
}

}  // namespace

/// Files are written by one process under a temporary name and never changed afterwards, so locks add nothing, and on Lustre and
/// NFS they often fail.
Handle file_access() {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // failures are reported as Errors, not printed
  Handle access = checked(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "prepare", "file access");
#if H5_VERSION_GE(1, 10, 7)
  H5Pset_file_locking(access.id(), false, true);
#endif
  H5Pset_alignment(access.id(), 65536, 4096);  // large tensors begin on a page
  return access;
}

Handle open_file(const std::filesystem::path& path) {
  const Handle access = file_access();
  return checked(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose, "open", path.string());
}

Handle create_group(const Handle& parent, const std::string& name) {
  return checked(H5Gcreate2(parent.id(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose, "create group", name);
}

bool exists(const Handle& group, const std::string& name) { return H5Lexists(group.id(), name.c_str(), H5P_DEFAULT) > 0; }

Handle open_group(const Handle& parent, const std::string& name) {
  return checked(H5Gopen2(parent.id(), name.c_str(), H5P_DEFAULT), H5Gclose, "open group", name);
}

Handle type_of(DType type) {
  switch (type) {
    case DType::F64: return checked(H5Tcopy(H5T_IEEE_F64LE), H5Tclose, "describe", "f64");
    case DType::F32: return checked(H5Tcopy(H5T_IEEE_F32LE), H5Tclose, "describe", "f32");
    case DType::I32: return checked(H5Tcopy(H5T_STD_I32LE), H5Tclose, "describe", "i32");
    case DType::BF16: return half_width_type({.exponent_bits = 8, .mantissa_bits = 7, .bias = 127});
    case DType::F16: return half_width_type({.exponent_bits = 5, .mantissa_bits = 10, .bias = 15});
    case DType::None: break;
  }
  fail("a tensor of no type cannot be stored");
}

Handle create_dataset(const Handle& parent, const std::string& name, DType type, std::span<const std::int64_t> sizes) {
  const Handle element = type_of(type);
  const Handle space = simple_space(sizes);
  const Handle creation = dataset_creation();
  return checked(H5Dcreate2(parent.id(), name.c_str(), element.id(), space.id(), H5P_DEFAULT, creation.id(), H5P_DEFAULT), H5Dclose,
                 "create dataset", name);
}

Handle create_compressed_dataset(const Handle& parent, const std::string& name, DType type, std::span<const std::int64_t> sizes) {
  constexpr hsize_t kChunkBytes = 1U << 20U;
  constexpr unsigned kLevel = 1;  // after shuffling, higher levels cost much time for little
  require(H5Zfilter_avail(H5Z_FILTER_DEFLATE) > 0, "this HDF5 library cannot compress: set checkpoint.compress to false");
  std::vector<hsize_t> chunk(sizes.begin(), sizes.end());
  hsize_t room = kChunkBytes / static_cast<hsize_t>(size_of(type));
  for (std::size_t i = chunk.size(); i-- > 0;) {
    chunk[i] = std::min(chunk[i], room);
    room = std::max<hsize_t>(room / chunk[i], 1);
  }
  const Handle element = type_of(type);
  const Handle space = simple_space(sizes);
  Handle creation = checked(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "prepare", "a dataset");
  const bool ok = H5Pset_chunk(creation.id(), static_cast<int>(chunk.size()), chunk.data()) >= 0 && H5Pset_shuffle(creation.id()) >= 0 &&
                  H5Pset_deflate(creation.id(), kLevel) >= 0 && H5Pset_fill_time(creation.id(), H5D_FILL_TIME_NEVER) >= 0;
  check(ok, "compress", name);
  H5Pset_obj_track_times(creation.id(), false);
  return checked(H5Dcreate2(parent.id(), name.c_str(), element.id(), space.id(), H5P_DEFAULT, creation.id(), H5P_DEFAULT), H5Dclose,
                 "create dataset", name);
}

void write_elements(const Handle& dataset, const ConstTensor& elements) {
  const Handle element = type_of(elements.dtype());  // as in the file: nothing is converted
  check(H5Dwrite(dataset.id(), element.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, elements.address()) >= 0, "write", "a tensor");
}

void read_elements(const Handle& file, const std::string& path, const Tensor& out) {
  const Handle dataset = checked(H5Dopen2(file.id(), path.c_str(), H5P_DEFAULT), H5Dclose, "open dataset", path);
  const Handle space = checked(H5Dget_space(dataset.id()), H5Sclose, "read the size of", path);
  const Handle stored = checked(H5Dget_type(dataset.id()), H5Tclose, "read the type of", path);
  const Handle expected = type_of(out.dtype());
  std::array<hsize_t, H5S_MAX_RANK> sizes{};
  const int rank = H5Sget_simple_extent_dims(space.id(), sizes.data(), nullptr);
  check(rank == out.rank() && std::equal(out.sizes().begin(), out.sizes().end(), sizes.begin(), sizes.begin() + rank) &&
            H5Tequal(stored.id(), expected.id()) > 0,
        "read", path + " as " + out.describe());
  check(H5Dread(dataset.id(), expected.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, out.address()) >= 0, "read", path);
}

void create_external_link(const Handle& parent, const std::string& name, const std::string& file, const std::string& path) {
  check(H5Lcreate_external(file.c_str(), path.c_str(), parent.id(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT) >= 0, "link to", file);
}

std::int64_t offset_of(const Handle& dataset) {
  const haddr_t address = H5Dget_offset(dataset.id());
  return address == HADDR_UNDEF ? 0 : static_cast<std::int64_t>(address);
}

void write_text(const Handle& parent, const std::string& name, std::string_view text) {
  const Handle type = text_type(text.size());
  const Handle space = simple_space({});
  const Handle creation = dataset_creation();
  const Handle dataset = checked(H5Dcreate2(parent.id(), name.c_str(), type.id(), space.id(), H5P_DEFAULT, creation.id(), H5P_DEFAULT),
                                 H5Dclose, "create dataset", name);
  const std::string value = text.empty() ? std::string(1, '\0') : std::string(text);
  check(H5Dwrite(dataset.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, value.data()) >= 0, "write", name);
}

std::string read_text(const Handle& parent, const std::string& name) {
  const Handle dataset = checked(H5Dopen2(parent.id(), name.c_str(), H5P_DEFAULT), H5Dclose, "open dataset", name);
  const Handle type = checked(H5Dget_type(dataset.id()), H5Tclose, "read the type of", name);
  check(H5Tget_class(type.id()) == H5T_STRING && H5Tis_variable_str(type.id()) == 0, "read as text", name);
  std::string text(H5Tget_size(type.id()), '\0');
  check(H5Dread(dataset.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()) >= 0, "read", name);
  text.resize(std::min(text.size(), text.find('\0')));
  return text;
}

std::vector<std::string> names_in(const Handle& group) {
  std::vector<std::string> names;
  const herr_t status = H5Literate(
      group.id(), H5_INDEX_NAME, H5_ITER_INC, nullptr,
      [](hid_t, const char* name, const H5L_info_t*, void* out) -> herr_t {
        static_cast<std::vector<std::string>*>(out)->emplace_back(name);
        return 0;
      },
      &names);
  check(status >= 0, "list", "a group");
  return names;
}

void set_attribute(const Handle& object, const std::string& name, std::string_view text) {
  const Handle type = text_type(text.size());
  const std::string value = text.empty() ? std::string(1, '\0') : std::string(text);
  write_attribute(object, name, type, type.id(), simple_space({}), value.data());
}

void set_attribute(const Handle& object, const std::string& name, std::span<const std::int64_t> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  constexpr std::int64_t kNothing = 0;  // the library wants an address even for no values
  write_attribute(object, name, integer_type(), H5T_NATIVE_INT64, simple_space(std::span(&count, 1)),
                  values.empty() ? &kNothing : values.data());
}

void set_attribute(const Handle& object, const std::string& name, std::int64_t value) {
  write_attribute(object, name, integer_type(), H5T_NATIVE_INT64, simple_space({}), &value);
}

}  // namespace oxrse::io::hdf5
