#include "io/checkpoint/shard.h"

#include "io/checkpoint/hdf5_image.h"
#include "io/checksum.h"
#include "io/file_stream.h"

namespace oxrse::io {
namespace {

std::span<const std::byte> bytes_of(const ConstTensor& tensor) { return {tensor.address(), static_cast<std::size_t>(tensor.bytes())}; }

void describe_shard(const hdf5::Handle& root, const CheckpointState& state, std::int64_t writer_rank, std::int64_t world) {
  hdf5::set_attribute(root, "format", "oxrse checkpoint shard");
  hdf5::set_attribute(root, "version", kCheckpointVersion);
  hdf5::set_attribute(root, "step", state.step);
  hdf5::set_attribute(root, "writer_rank", writer_rank);
  hdf5::set_attribute(root, "world", world);
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
  explicit Groups(const hdf5::Handle& root) : model_(hdf5::create_group(root, "model")), optim_(hdf5::create_group(root, "optim")) {}

  hdf5::Handle dataset(const CheckpointEntry& entry) {
    const ConstTensor& tensor = entry.tensor;
    if (entry.part == "model") return hdf5::create_dataset(model_, entry.name, tensor.dtype(), tensor.sizes());
    const hdf5::Handle group =
        hdf5::exists(optim_, entry.name) ? hdf5::open_group(optim_, entry.name) : hdf5::create_group(optim_, entry.name);
    return hdf5::create_dataset(group, entry.part, tensor.dtype(), tensor.sizes());
  }

 private:
  hdf5::Handle model_, optim_;
};

/// Writes the tensors of a shard, each as soon as it has its place, so that made ones need memory for one only.
class TensorWriter {
 public:
  TensorWriter(OutputFile& out, const hdf5::Handle& root, std::int64_t file_index) : out_(out), groups_(root), file_index_(file_index) {}

  StoredTensor write(const CheckpointEntry& entry) {
    const ConstTensor tensor = elements_of(entry);
    const std::vector<std::int64_t> shape(tensor.sizes().begin(), tensor.sizes().end());
    const std::vector<std::int64_t> origin(shape.size(), 0);
    const std::string checksum = hex(xxh3(bytes_of(tensor)));
    const hdf5::Handle dataset = groups_.dataset(entry);
    const std::int64_t position = hdf5::offset_of(dataset);
    hdf5::set_attribute(dataset, "global_shape", shape);
    hdf5::set_attribute(dataset, "offset", origin);
    hdf5::set_attribute(dataset, "global_dtype", name_of(tensor.dtype()));
    hdf5::set_attribute(dataset, "xxh3", checksum);
    out_.write_at(bytes_of(tensor), position);
    return {entry.name, entry.part, tensor.dtype(), shape, {{file_index_, origin, shape, position, checksum}}};
  }

 private:
  ConstTensor elements_of(const CheckpointEntry& entry) {
    if (!entry.fill) return entry.tensor;
    buffer_.resize(static_cast<std::size_t>(entry.tensor.bytes()));
    const Tensor made(buffer_.data(), entry.tensor.dtype(), entry.tensor.sizes());
    entry.fill(made);
    return made;
  }

  OutputFile& out_;
  Groups groups_;
  std::int64_t file_index_;
  std::vector<std::byte> buffer_;
};

}  // namespace

std::vector<StoredTensor> write_shard(const std::filesystem::path& path, std::int64_t file_index, const CheckpointState& state,
                                      std::span<const CheckpointEntry> entries) {
  std::vector<StoredTensor> table;
  OutputFile file(path);
  hdf5::Image image;
  {
    const hdf5::Handle root = hdf5::open_group(image.file(), "/");
    describe_shard(root, state, file_index, 1);
    write_state(root, state);
    TensorWriter writer(file, root, file_index);
    for (const CheckpointEntry& entry : entries) table.push_back(writer.write(entry));
  }
  image.finish();
  image.write_to(file);
  file.close();
  return table;
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
