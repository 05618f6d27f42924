#include "io/data/tokenise.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine/core/error.h"
#include "io/data/dataset_writer.h"
#include "io/data/text_groups.h"
#include "io/data/workers.h"

namespace oxrse::io {
namespace {

constexpr std::int64_t kTokensPerShard = std::int64_t{1} << 26U;  // 128 or 256 MiB, held in memory while a shard is filled
constexpr std::int64_t kGroupsAhead = 64;                         // that may wait for an earlier one to be written

/// Workers take groups of text in turn, encode them at the same time and hand them on in reading order.
class Pipeline {
 public:
  Pipeline(const std::vector<std::filesystem::path>& files, const Tokenizer& tokenizer, const std::filesystem::path& directory,
           const OnProgress& progress)
      : files_(files),
        tokenizer_(tokenizer),
        progress_(progress),
        groups_(TextReader(files, [&](std::string_view text, std::size_t from) { return tokenizer.cut(text, from); })),
        writer_(directory, tokenizer, kTokensPerShard) {}

  TokeniseSummary run() {
    on_all_cores(std::max(1U, std::thread::hardware_concurrency()), [this](std::size_t) { work(); });
    writer_.finish();
    return {.tokens = writer_.tokens(),
            .documents = writer_.documents(),
            .empty_documents = groups_.reader().empty_documents(),
            .bytes = groups_.reader().bytes_in_all()};
  }

 private:
  struct Encoded {
    TextGroups::Group group;
    std::vector<std::vector<std::int32_t>> tokens;  // of each part
  };

  void work() {
    try {
      for (TextGroups::Group group = groups_.next(); !group.parts.empty(); group = groups_.next()) {
        Encoded encoded{.group = std::move(group), .tokens = {}};
        for (const TextPart& part : encoded.group.parts) tokenizer_.encode_to(encoded.tokens.emplace_back(), part.text);
        hand_on(std::move(encoded));
      }
    } catch (...) {
      const std::lock_guard lock(guard_);
      failed_ = true;
      written_.notify_all();
      throw;
    }
  }

  void hand_on(Encoded encoded) {
    std::unique_lock lock(guard_);
    const std::int64_t number = encoded.group.number;
    written_.wait(lock, [&] { return failed_ || number < next_to_write_ + kGroupsAhead; });
    waiting_.emplace(number, std::move(encoded));
    while (!failed_ && !waiting_.empty() && waiting_.begin()->first == next_to_write_) {
      write(waiting_.begin()->second);
      waiting_.erase(waiting_.begin());
      ++next_to_write_;
    }
    written_.notify_all();
  }

  void write(const Encoded& encoded) {
    for (std::size_t i = 0; i < encoded.tokens.size(); ++i) {
      const TextPart& part = encoded.group.parts[i];
      writer_.add(encoded.tokens[i]);
      if (part.ends_document) writer_.end_document();
      if (part.ends_file) writer_.end_file(files_[files_written_++].string());
    }
    if (progress_)
      progress_({.what = "tokenising", .unit = "bytes", .done = encoded.group.bytes_read, .total = groups_.reader().bytes_in_all()});
  }

  const std::vector<std::filesystem::path>& files_;
  const Tokenizer& tokenizer_;
  const OnProgress& progress_;

  TextGroups groups_;

  std::mutex guard_;  // of what follows
  std::condition_variable written_;
  DatasetWriter writer_;
  std::map<std::int64_t, Encoded> waiting_;
  std::int64_t next_to_write_ = 0;
  std::size_t files_written_ = 0;
  bool failed_ = false;
};

}  // namespace

TokeniseSummary tokenise(const std::vector<std::filesystem::path>& files, const Tokenizer& tokenizer,
                         const std::filesystem::path& directory, const OnProgress& progress) {
  return Pipeline(files, tokenizer, directory, progress).run();
}

}  // namespace oxrse::io
