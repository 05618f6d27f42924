#include "io/data/tokenise.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine/core/error.h"
#include "io/data/dataset_writer.h"
#include "io/data/text_reader.h"
#include "io/data/workers.h"

namespace oxrse::io {
namespace {

constexpr std::int64_t kTokensPerShard = std::int64_t{1} << 26U;  // 128 or 256 MiB, held in memory while a shard is filled
constexpr std::size_t kGroupBytes = std::size_t{1} << 20U;        // of text that a worker takes at once
constexpr std::int64_t kGroupsAhead = 64;                         // that may wait for an earlier one to be written

/// Parts of documents in reading order, and their tokens.
struct Group {
  std::vector<TextPart> parts;
  std::vector<std::vector<std::int32_t>> tokens;
  std::int64_t bytes_read = 0;  // by the reader when it had read this group
};

/// Workers take groups of text in turn, encode them at the same time and hand them on in reading order.
class Pipeline {
 public:
  Pipeline(const std::vector<std::filesystem::path>& files, const Tokenizer& tokenizer, const std::filesystem::path& directory,
           const OnProgress& progress)
      : files_(files),
        tokenizer_(tokenizer),
        progress_(progress),
        reader_(files, tokenizer.cuts_at_lines()),
        writer_(directory, tokenizer, kTokensPerShard) {}

  TokeniseSummary run() {
    on_all_cores(std::max(1U, std::thread::hardware_concurrency()), [this](std::size_t) { work(); });
    writer_.finish();
    return {.tokens = writer_.tokens(),
            .documents = writer_.documents(),
            .empty_documents = reader_.empty_documents(),
            .bytes = reader_.bytes_in_all()};
  }

 private:
  void work() {
    try {
      std::int64_t number = 0;
      for (Group group = read(number); !group.parts.empty(); group = read(number)) {
        group.tokens.resize(group.parts.size());
        for (std::size_t i = 0; i < group.parts.size(); ++i) tokenizer_.encode_to(group.tokens[i], group.parts[i].text);
        hand_on(number, std::move(group));
      }
    } catch (...) {
      const std::lock_guard lock(write_guard_);
      failed_ = true;
      written_.notify_all();
      throw;
    }
  }

  Group read(std::int64_t& number) {
    const std::lock_guard lock(read_guard_);
    Group group;
    std::size_t bytes = 0;
    while (bytes < kGroupBytes) {
      auto part = reader_.next();
      if (!part) break;
      bytes += part->text.size() + 64;  // so that groups of tiny documents do not grow without end
      group.parts.push_back(std::move(*part));
    }
    group.bytes_read = reader_.bytes_read();
    number = next_to_read_++;
    return group;
  }

  void hand_on(std::int64_t number, Group group) {
    std::unique_lock lock(write_guard_);
    written_.wait(lock, [&] { return failed_ || number < next_to_write_ + kGroupsAhead; });
    waiting_.emplace(number, std::move(group));
    while (!failed_ && !waiting_.empty() && waiting_.begin()->first == next_to_write_) {
      write(waiting_.begin()->second);
      waiting_.erase(waiting_.begin());
      ++next_to_write_;
    }
    written_.notify_all();
  }

  void write(const Group& group) {
    for (std::size_t i = 0; i < group.parts.size(); ++i) {
      writer_.add(group.tokens[i]);
      if (group.parts[i].ends_document) writer_.end_document();
      if (group.parts[i].ends_file) writer_.end_file(files_[files_written_++].string());
    }
    if (progress_) progress_({.what = "tokenising", .done = group.bytes_read, .total = reader_.bytes_in_all()});
  }

  const std::vector<std::filesystem::path>& files_;
  const Tokenizer& tokenizer_;
  const OnProgress& progress_;

  std::mutex read_guard_;
  TextReader reader_;
  std::int64_t next_to_read_ = 0;

  std::mutex write_guard_;
  std::condition_variable written_;
  DatasetWriter writer_;
  std::map<std::int64_t, Group> waiting_;
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
