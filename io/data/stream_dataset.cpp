#include "io/data/stream_dataset.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/core/error.h"
#include "io/data/sample_order.h"

namespace oxrse::io {
namespace {

constexpr std::int64_t kCheckedAtOnce = std::int64_t{1} << 26U;  // tokens; scanning them takes well under a second

}  // namespace

StreamDataset::StreamDataset(std::string name, TokenStream stream, const DatasetOptions& options)
    : name_(std::move(name)),
      stream_(std::move(stream)),
      options_(options),
      samples_(options.context > 0 ? (stream_.size() - 1) / options.context : 0),
      fingerprint_(stream_.fingerprint()) {
  require(options.context > 0, "a context of {} tokens", options.context);
  require(stream_.size() > 0, "{}: there are no tokens", name_);
  require(samples_ > 0,
          "{}: {} tokens are too few for one sample, which takes {} (train.context {} and one more); use a smaller context or more data",
          name_, stream_.size(), options.context + 1, options.context);
  require(!options.documents || stream_.knows_documents(options.end_of_text),
          "{}: packing \"documents\" needs to know where documents end: use text, JSONL or our own shards, or give a tokenizer with an "
          "end-of-text token",
          name_);
  check_everything();
}

std::string StreamDataset::describe() const {
  return fmt::format("{}: {} tokens, {} samples of {} tokens an epoch, {} tokens left over; {}{}", name_, tokens(), samples_,
                     options_.context, tokens() - samples_ * options_.context, options_.shuffled ? "shuffled" : "sequential",
                     options_.documents ? ", documents kept apart" : "");
}

std::int64_t StreamDataset::sample_of(std::int64_t n) const {
  require(n >= 0, "sample number {}", n);
  const std::int64_t place = n % samples_;
  if (!options_.shuffled) return place;
  return Permutation(options_.seed, fingerprint_, static_cast<std::uint64_t>(n / samples_), samples_)(place);
}

void StreamDataset::read(std::int64_t n, const Row& row) const {
  const auto context = static_cast<std::size_t>(options_.context);
  require(row.inputs.size() == context && row.targets.size() == context && row.positions.size() == context &&
              row.document_start.size() == context,
          "rows of {}, {}, {} and {} tokens for samples of {}", row.inputs.size(), row.targets.size(), row.positions.size(),
          row.document_start.size(), context);
  const std::int64_t begin = sample_of(n) * options_.context;
  std::vector<std::int32_t> tokens(context + 1);
  stream_.read(begin, tokens);
  check_vocabulary(begin, tokens);
  std::copy(tokens.begin(), tokens.end() - 1, row.inputs.begin());
  std::copy(tokens.begin() + 1, tokens.end(), row.targets.begin());
  for (std::size_t i = 0; i < context; ++i) row.positions[i] = static_cast<std::int32_t>(i);
  std::fill(row.document_start.begin(), row.document_start.end(), 0);
  if (options_.documents) separate_documents(begin, tokens, row);
}

void StreamDataset::separate_documents(std::int64_t begin, std::span<const std::int32_t> tokens, const Row& row) const {
  std::int64_t start = 0;
  const auto fill_until = [&](std::int64_t end) {
    for (std::int64_t i = start; i < end; ++i) {
      row.positions[i] = static_cast<std::int32_t>(i - start);
      row.document_start[i] = static_cast<std::int32_t>(start);
    }
  };
  for (const std::int64_t next : stream_.document_starts(begin, tokens, options_.end_of_text)) {
    fill_until(next);
    row.targets[next - 1] = -1;
    start = next;
  }
  fill_until(options_.context);
}

void StreamDataset::check_vocabulary(std::int64_t begin, std::span<const std::int32_t> tokens) const {
  const std::uint32_t bound = options_.vocab > 0 ? static_cast<std::uint32_t>(options_.vocab) : 0x80000000U;
  const auto outside = [&](std::int32_t token) { return static_cast<std::uint32_t>(token) >= bound; };
  const auto bad = std::find_if(tokens.begin(), tokens.end(), outside);
  if (bad == tokens.end()) return;
  fail("{}: token {} is not below the vocabulary of {} tokens; the data was made with another tokenizer, or model.vocab is too small",
       stream_.locate(begin + (bad - tokens.begin())), static_cast<std::uint32_t>(*bad), bound);
}

/// Small data is checked as a whole, so that a bad token is known before training starts; large data as it is read.
void StreamDataset::check_everything() const {
  if (stream_.size() > kCheckedAtOnce) return;
  std::vector<std::int32_t> tokens(std::min<std::int64_t>(stream_.size(), 1 << 16U));
  for (std::int64_t begin = 0; begin < stream_.size(); begin += static_cast<std::int64_t>(tokens.size())) {
    const auto part = std::span(tokens).first(std::min<std::int64_t>(tokens.size(), stream_.size() - begin));
    stream_.read(begin, part);
    check_vocabulary(begin, part);
  }
}

}  // namespace oxrse::io
