#include "io/data/train_tokenizer.h"

#include <algorithm>
#include <mutex>
#include <thread>

#include "io/data/text_groups.h"
#include "io/data/workers.h"
#include "io/tokenizer/bpe_trainer.h"
#include "io/tokenizer/splitter.h"

namespace oxrse::io {
namespace {

WordCounts count_words(const std::vector<std::filesystem::path>& files, const Splitter& splitter, const TextOptions& options,
                       const OnProgress& progress) {
  TextGroups groups(TextReader(
      files, [&](std::string_view text, std::size_t from) { return splitter.cut(text, from); }, options));
  WordCounts all;
  std::mutex guard;
  on_all_cores(std::max(1U, std::thread::hardware_concurrency()), [&](std::size_t) {
    WordCounts counts;
    for (TextGroups::Group group = groups.next(); !group.parts.empty(); group = groups.next()) {
      for (const TextPart& part : group.parts) splitter.split(part.text, [&](std::string_view word) { counts.add(word); });
      if (!progress) continue;
      const std::lock_guard lock(guard);
      progress({.what = "counting words", .unit = "bytes", .done = group.end.bytes_read, .total = groups.bytes_in_all()});
    }
    const std::lock_guard lock(guard);
    all.add(counts);
  });
  const std::int64_t bytes = groups.bytes_in_all();
  if (progress) progress({.what = "counting words", .unit = "bytes", .done = bytes, .total = bytes});
  return all;
}

}  // namespace

std::unique_ptr<Tokenizer> train_tokenizer(const std::vector<std::filesystem::path>& files, std::int64_t vocab, const TextOptions& options,
                                           const OnProgress& progress) {
  const Splitter splitter{std::string(kLlama3Pattern)};
  const WordCounts counts = count_words(files, splitter, options, progress);
  const auto report = [&](std::int64_t tokens) {
    if (progress) progress({.what = "training the tokenizer", .unit = "tokens", .done = tokens, .total = vocab});
  };
  auto tokenizer = std::make_unique<BpeTokenizer>(train_bpe(counts, vocab, splitter.pattern(), report));
  report(vocab);
  return tokenizer;
}

}  // namespace oxrse::io
