#include "io/checkpoint/shard.h"

#include <algorithm>
#include <array>
#include <utility>

#include "io/checkpoint/hdf5_image.h"
#include "io/checkpoint/linker.h"
#include "io/checksum.h"

namespace oxrse::io {
namespace {

std::span<const std::byte> bytes_of(const ConstTensor& tensor) { return {tensor.address(), static_cast<std::size_t>(tensor.bytes())}; }

void set_identity(const hdf5::Handle& root, const CheckpointState& state, const Writer& writer) {
  hdf5::set_attribute(root, "format", "oxrse checkpoint shard");
  hdf5::set_attribute(root, "version", kCheckpointVersion);
  hdf5::set_attribute(root, "step", state.step);
  hdf5::set_attribute(root, "writer_rank", writer.rank);
  hdf5::set_attribute(root, "world", writer.count);
}

/// A line behind what HDF5 reads: it says whose file this is also where HDF5 must not be trusted with a damaged one.
constexpr std::string_view kTrailer = "\noxrse checkpoint ";

std::string trailer(const CheckpointState& state, const Writer& writer) {
  return fmt::format("{}shard {} of {} of step {}\n", kTrailer, writer.rank, writer.count, state.step);
}

void write_state(const hdf5::Handle& root, const CheckpointState& state) {
  const hdf5::Handle values = hdf5::create_group(root, "state");
  for (const auto& [name, value] : state.state.items()) hdf5::write_text(values, name, value.dump());
  const hdf5::Handle meta = hdf5::create_group(root, "meta");
  hdf5::write_text(meta, "config", state.config.dump(2));
  if (!state.tokenizer_json.empty()) hdf5::write_text(meta, "tokenizer", state.tokenizer_json);
}

/// Finds the group of an entry: /model for compute weights, /optim/<name> for what the optimizer keeps of a parameter.
class Groups {
 public:
  explicit Groups(const hdf5::Handle& root) : root_(root) {
    for (const char* name : {"model", "optim"}) hdf5::create_group(root, name);
  }
  hdf5::Handle of(const CheckpointEntry& entry) const {
    if (entry.part == "model") return hdf5::open_group(root_, "model");
    const std::string name = "optim/" + entry.name;
    return hdf5::exists(root_, name) ? hdf5::open_group(root_, name) : hdf5::create_group(root_, name);
  }
  static const std::string& name_in_group(const CheckpointEntry& entry) { return entry.part == "model" ? entry.name : entry.part; }

 private:
  const hdf5::Handle& root_;
};

/// Compression gains nothing on few bytes, and scalars have no chunks.
bool worth_compressing(const ConstTensor& tensor) { return tensor.rank() > 0 && tensor.bytes() >= 4096; }

/// Writes the tensors of a shard, each as soon as it has its place, so that made ones need memory for one only.
class TensorWriter {
 public:
  TensorWriter(OutputFile& out, hdf5::Image& image, const hdf5::Handle& root, bool compress)
      : out_(out), image_(image), groups_(root), compress_(compress) {}

  /// The elements of an entry; valid until the next call.
  ConstTensor elements_of(const CheckpointEntry& entry) {
    if (!entry.fill) return entry.tensor;
    buffer_.resize(static_cast<std::size_t>(entry.tensor.bytes()));
    const Tensor made(buffer_.data(), entry.tensor.dtype(), entry.tensor.sizes());
    entry.fill(made);
    return made;
  }

  StoredTensor write(const CheckpointEntry& entry, const ConstTensor& tensor) {
    const Placement place = entry.place();
    Piece piece{.file = 0, .region = place.region, .xxh3 = "", .compressed = compress_ && worth_compressing(tensor)};
    const hdf5::Handle group = groups_.of(entry);
    const std::string& name = Groups::name_in_group(entry);
    const hdf5::Handle dataset = piece.compressed ? hdf5::create_compressed_dataset(group, name, tensor.dtype(), tensor.sizes())
                                                  : hdf5::create_dataset(group, name, tensor.dtype(), tensor.sizes());
    piece.position = piece.compressed ? 0 : hdf5::offset_of(dataset);
    piece.xxh3 = hex(piece.compressed ? write_compressed(dataset, tensor) : write_bytes(bytes_of(tensor), piece.position));
    hdf5::set_attribute(dataset, "global_shape", place.shape);
    hdf5::set_attribute(dataset, "offset", place.region.offset);
    if (place.region.flat) {
      const std::int64_t begin = place.region.offset[0];
      hdf5::set_attribute(dataset, "flat_range", std::array{begin, begin + place.region.shape[0]});
    }
    hdf5::set_attribute(dataset, "global_dtype", name_of(tensor.dtype()));
    hdf5::set_attribute(dataset, "xxh3", piece.xxh3);
    return {entry.name, entry.part, tensor.dtype(), place.shape, {piece}};
  }

  void link(const CheckpointEntry& entry, const std::string& file) {
    hdf5::create_external_link(groups_.of(entry), Groups::name_in_group(entry), file, dataset_path(entry.name, entry.part));
  }

 private:
  /// Bytes are hashed and written while they are in the cache. Returns their checksum.
  std::uint64_t write_bytes(std::span<const std::byte> bytes, std::int64_t position) {
    constexpr std::size_t kStep = std::size_t{1} << 20U;
    Xxh3 checksum;
    for (std::size_t done = 0; done < bytes.size(); done += kStep) {
      const auto step = bytes.subspan(done, std::min(kStep, bytes.size() - done));
      checksum.add(step);
      out_.write_at(step, position + static_cast<std::int64_t>(done));
    }
    return checksum.value();
  }
  std::uint64_t write_compressed(const hdf5::Handle& dataset, const ConstTensor& tensor) {
    image_.write_elements(dataset, tensor, out_);
    return xxh3(bytes_of(tensor));
  }

  OutputFile& out_;
  hdf5::Image& image_;
  Groups groups_;
  bool compress_;
  std::vector<std::byte> buffer_;
};

/// Checksums of a file that is written but need not be on the disk yet: reading it back from the system's cache goes on while the disk
/// writes.
StoredFile summarize(const std::filesystem::path& path, std::span<const StoredTensor> tensors) {
  const InputFile file(path);
  return {path.filename().string(), file.size(), hex(xxh3_of_file(path)), hex(structure_checksum(file, 0, tensors))};
}

}  // namespace

std::string shard_name(std::int64_t writer_rank) { return fmt::format("shard_r{:05}.h5", writer_rank); }

std::string dataset_path(std::string_view name, std::string_view part) {
  return part == "model" ? fmt::format("/model/{}", name) : fmt::format("/optim/{}/{}", name, part);
}

ShardSummary write_shard(const std::filesystem::path& directory, const Writer& writer, const CheckpointState& state,
                         std::span<const CheckpointEntry> entries, const ShardOptions& options) {
  ShardSummary summary;
  const std::filesystem::path path = directory / shard_name(writer.rank);
  OutputFile file(path);
  hdf5::Image image;
  Linker linker(directory, options.base);
  {
    const hdf5::Handle root = hdf5::open_group(image.file(), "/");
    set_identity(root, state, writer);
    if (writer.rank == 0) write_state(root, state);
    TensorWriter tensors(file, image, root, options.compress);
    for (const CheckpointEntry& entry : entries) {
      const ConstTensor tensor = tensors.elements_of(entry);
      if (const auto linked = linker.link(entry, tensor)) {
        tensors.link(entry, linker.files()[static_cast<std::size_t>(linked->pieces.front().file) - 1].name);
        summary.tensors.push_back(*linked);
      } else {
        summary.tensors.push_back(tensors.write(entry, tensor));
      }
    }
  }
  image.finish();
  image.write_to(file);
  const std::string last_line = trailer(state, writer);
  file.write_at(std::as_bytes(std::span(last_line)), image.size());
  summary.files = {summarize(path, summary.tensors)};
  summary.files.insert(summary.files.end(), linker.files().begin(), linker.files().end());
  file.close();
  return summary;
}

std::uint64_t structure_checksum(const InputFile& file, std::int64_t index, std::span<const StoredTensor> tensors) {
  std::vector<std::pair<std::int64_t, std::int64_t>> pieces;  // first byte and the one after the last
  for (const StoredTensor& tensor : tensors) {
    for (const Piece& piece : tensor.pieces) {
      const std::int64_t bytes = piece.region.count() * size_of(tensor.dtype);
      if (piece.file == index && bytes > 0 && !piece.compressed) pieces.emplace_back(piece.position, piece.position + bytes);
    }
  }
  pieces.emplace_back(file.size(), file.size());
  std::sort(pieces.begin(), pieces.end());
  Xxh3 checksum;
  std::int64_t position = 0;
  for (const auto& [begin, end] : pieces) {
    checksum.add(file, position, begin);
    position = std::max(position, end);
  }
  return checksum.value();
}

std::string describe_shard(const std::filesystem::path& path) {
  const InputFile file(path);
  std::string end(static_cast<std::size_t>(std::min<std::int64_t>(file.size(), 256)), '\0');
  file.read(std::as_writable_bytes(std::span(end)), file.size() - std::ssize(end));
  const std::size_t line = end.rfind(kTrailer);
  return line == std::string::npos || end.back() != '\n' ? "" : end.substr(line + kTrailer.size(), end.size() - line - kTrailer.size() - 1);
}

CheckpointState read_shard_state(const std::filesystem::path& path) {
  const hdf5::Handle file = hdf5::open_file(path);
  CheckpointState result;
  const hdf5::Handle values = hdf5::open_group(file, "state");
  for (const std::string& name : hdf5::names_in(values)) result.state[name] = Json::parse(hdf5::read_text(values, name));
  const hdf5::Handle meta = hdf5::open_group(file, "meta");
  result.config = Json::parse(hdf5::read_text(meta, "config"));
  if (hdf5::exists(meta, "tokenizer")) result.tokenizer_json = hdf5::read_text(meta, "tokenizer");
  return result;
}

}  // namespace oxrse::io
