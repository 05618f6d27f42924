#include "io/hf/export.h"

#include <cmath>
#include <set>

#include "io/convert.h"
#include "io/files.h"
#include "io/hf/name_map.h"
#include "io/hf/transpose.h"
#include "io/model_zoo.h"
#include "io/safetensors/safetensors_model_writer.h"
#include "io/tokenizer/tokenizer.h"

namespace oxrse::io {
namespace {

NameMap family_for(const Json& model, const std::string& wanted) {
  std::string reasons;
  for (const std::string& name : model_zoo_entries("hf")) {
    if (!wanted.empty() && name != wanted) continue;
    NameMap map(name);
    const std::string reason = map.why_not(model);
    if (reason.empty()) return map;
    reasons += fmt::format("\n  {}: {}", name, reason);
  }
  if (reasons.empty()) return NameMap(wanted);  // no such family: says which there are
  fail("no Hugging Face family can express this model:{}", reasons);
}

/// Where a parameter's best values are: the master copy, or the compute weights.
const StoredTensor& find_weights(const Checkpoint& checkpoint, const HfTensor& tensor) {
  for (const char* part : {"master", "model"}) {
    for (const StoredTensor& stored : checkpoint.tensors()) {
      if (stored.name != tensor.name || stored.part != part) continue;
      require(stored.shape == tensor.shape, "tensor {} has shape {} in the checkpoint; its model asks for {}", stored.label(),
              describe_shape(stored.shape), describe_shape(tensor.shape));
      return stored;
    }
  }
  fail("{} has no weights of {}", checkpoint.directory().string(), tensor.name);
}

void check_nothing_left(const Checkpoint& checkpoint, const std::vector<HfTensor>& tensors, const NameMap& map) {
  std::set<std::string> known;
  for (const HfTensor& tensor : tensors) known.insert(tensor.name);
  for (const StoredTensor& stored : checkpoint.tensors()) {
    require(known.contains(stored.name), "tensor {} of the checkpoint has no place in a model of type {}", stored.label(), map.family());
  }
}

double as_double(double value) { return value; }
template <class T>
double as_double(T value) {
  return static_cast<double>(static_cast<float>(value));
}

/// A finite value that became infinite in the narrower type is an Error.
void check_range(const Tensor& narrow, const ConstTensor& wide, const std::string& name) {
  visit_floating(narrow.dtype(), [&](auto narrow_tag) {
    visit_floating(wide.dtype(), [&](auto wide_tag) {
      const auto* n = narrow.data<typename decltype(narrow_tag)::type>();
      const auto* w = wide.data<typename decltype(wide_tag)::type>();
      for (std::int64_t i = 0; i < narrow.count(); ++i) {
        const double from = as_double(w[i]);
        require(!std::isinf(as_double(n[i])) || std::isinf(from), "{}: element {} is {}, which {} cannot hold", name, i, from,
                name_of(narrow.dtype()));
      }
    });
  });
}

/// Reads a parameter as `dtype` into `out`.
void read_as(const Checkpoint& checkpoint, const StoredTensor& stored, DType dtype, std::vector<std::byte>& out) {
  const std::int64_t count = checked_count(stored.shape, stored.dtype);
  out.resize(static_cast<std::size_t>(count * size_of(dtype)));
  const Tensor result(out.data(), dtype, stored.shape);
  if (dtype == stored.dtype) return checkpoint.read(stored.name, stored.part, result);
  std::vector<std::byte> bytes(static_cast<std::size_t>(stored.bytes()));
  const Tensor as_stored(bytes.data(), stored.dtype, stored.shape);
  checkpoint.read(stored.name, stored.part, as_stored);
  convert(result, as_stored);
  check_range(result, as_stored, stored.label());
}

class Export {
 public:
  Export(const Checkpoint& checkpoint, const HfExport& options)
      : checkpoint_(checkpoint),
        options_(options),
        model_(model_of(checkpoint)),
        map_(family_for(model_, options.family)),
        tensors_(map_.tensors(model_)) {
    for (const HfTensor& tensor : tensors_) stored_.push_back(&find_weights(checkpoint, tensor));
    check_nothing_left(checkpoint, tensors_, map_);
  }

  void write(const std::filesystem::path& directory) const {
    const Json config = map_.config_from(model_, type_of(*stored_.front()));
    write_file_atomically(directory / "config.json", config.dump(2) + "\n");
    if (!checkpoint_.tokenizer_json().empty()) write_tokenizer(directory);
    SafetensorsModelWriter writer(directory, table(), options_.shard_bytes);
    for (std::size_t i = 0; i < tensors_.size(); ++i) write_parts(tensors_[i], *stored_[i], writer);
    writer.commit();
  }

 private:
  /// The tokenizer, and that it is to be used as it is: by itself transformers takes a class with another pattern for some families.
  void write_tokenizer(const std::filesystem::path& directory) const {
    write_file_atomically(directory / "tokenizer.json", checkpoint_.tokenizer_json());
    Json settings = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
    const auto tokenizer = tokenizer_from_json(checkpoint_.tokenizer_json(), checkpoint_.directory().string());
    if (const auto end = tokenizer->end_of_text()) settings["eos_token"] = std::string(tokenizer->bytes_of(*end));
    write_file_atomically(directory / "tokenizer_config.json", settings.dump(2) + "\n");
  }

  static const Json& model_of(const Checkpoint& checkpoint) {
    require(checkpoint.config().contains("model") && checkpoint.config().at("model").is_object(),
            "{} does not say in its config what model it is of", checkpoint.directory().string());
    return checkpoint.config().at("model");
  }
  [[nodiscard]] DType type_of(const StoredTensor& stored) const { return options_.dtype.value_or(stored.dtype); }

  [[nodiscard]] std::vector<SafetensorsEntry> table() const {
    std::vector<SafetensorsEntry> table;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      for (const HfPart& part : tensors_[i].parts) {
        table.push_back({part.name, type_of(*stored_[i]), part.shape});
        if (tensors_[i].transposed) std::swap(table.back().shape[0], table.back().shape[1]);
      }
    }
    return table;
  }

  void write_parts(const HfTensor& tensor, const StoredTensor& stored, SafetensorsModelWriter& writer) const {
    const DType type = type_of(stored);
    std::vector<std::byte> whole, turned;
    read_as(checkpoint_, stored, type, whole);
    const std::byte* at = whole.data();
    for (const HfPart& part : tensor.parts) {
      const ConstTensor as_ours(at, type, part.shape);
      at += as_ours.bytes();
      if (!tensor.transposed) {
        writer.write(as_ours);
        continue;
      }
      turned.resize(static_cast<std::size_t>(as_ours.bytes()));
      transpose(turned.data(), as_ours.address(), part.shape[0], part.shape[1], size_of(type));
      writer.write(ConstTensor(turned.data(), type, {part.shape[1], part.shape[0]}));
    }
  }

  const Checkpoint& checkpoint_;
  const HfExport& options_;
  const Json& model_;
  NameMap map_;
  std::vector<HfTensor> tensors_;
  std::vector<const StoredTensor*> stored_;
};

}  // namespace

void export_hf(const Checkpoint& checkpoint, const std::filesystem::path& out, const HfExport& options) {
  require(!std::filesystem::exists(out), "{} exists already; choose another directory", out.string());
  const Export result(checkpoint, options);
  make_directory_atomically(out, [&](const std::filesystem::path& directory) { result.write(directory); });
}

}  // namespace oxrse::io
