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

constexpr std::int64_t kGroupsAhead = 64;  // that may wait for an earlier one to be written

/// Workers take groups of text in turn, encode them at the same time and hand them on in reading order.
class Pipeline {
 public:
  Pipeline(const std::vector<std::filesystem::path>& files, const Tokenizer& tokenizer, const std::filesystem::path& directory,
           const TokeniseOptions& options, Journal* journal, const OnProgress& progress)
      : files_(files),
        tokenizer_(tokenizer),
        journal_(journal),
        progress_(progress),
        writer_(directory, tokenizer, options.tokens_per_shard),
        groups_(open_text(options)) {}

  TokeniseSummary run() {
    on_all_cores(std::max(1U, std::thread::hardware_concurrency()), [this](std::size_t) { work(); });
    writer_.finish(groups_.report());
    return {.tokens = writer_.state().tokens,
            .documents = writer_.state().documents,
            .bytes = groups_.bytes_in_all(),
            .left_out = groups_.report()};
  }

 private:
  struct Encoded {
    TextGroups::Group group;
    std::vector<std::vector<std::int32_t>> tokens;  // of each part
  };

  /// The text from the beginning, or from where the journal says; then the writer goes on there, too.
  TextReader open_text(const TokeniseOptions& options) {
    TextReader reader(
        files_, [this](std::string_view text, std::size_t from) { return tokenizer_.cut(text, from); }, options.text);
    if (journal_ == nullptr) return reader;
    if (auto state = journal_->take()) {
      reader.go_on(std::move(state->reader), state->documents);
      writer_.go_on(std::move(state->writer));
    }
    return reader;
  }

  /// When text cannot be read, all that comes before it is still written.
  void work() {
    for (TextGroups::Group group = groups_.next(); !group.parts.empty(); group = groups_.next()) encode(std::move(group));
  }

  void encode(TextGroups::Group group) {
    try {
      Encoded encoded{.group = std::move(group), .tokens = {}};
      for (const TextPart& part : encoded.group.parts) tokenizer_.encode_to(encoded.tokens.emplace_back(), part.text);
      hand_on(std::move(encoded));
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
    const std::size_t shards = writer_.state().shards.size();
    for (std::size_t i = 0; i < encoded.tokens.size(); ++i) {
      const TextPart& part = encoded.group.parts[i];
      if (journal_ != nullptr && part.document) journal_->add_document(*part.document);
      writer_.add(encoded.tokens[i]);
      if (part.ends_document) writer_.end_document();
      if (part.ends_file) writer_.end_file(files_[writer_.state().files.size()].string());
    }
    if (journal_ != nullptr && writer_.state().shards.size() > shards) journal_->save(encoded.group.end, writer_.state());
    if (progress_)
      progress_({.what = "tokenising", .unit = "bytes", .done = encoded.group.end.bytes_read, .total = groups_.bytes_in_all()});
  }

  const std::vector<std::filesystem::path>& files_;
  const Tokenizer& tokenizer_;
  Journal* journal_;  // guarded like the writer
  const OnProgress& progress_;

  std::mutex guard_;  // of what follows, up to failed_
  std::condition_variable written_;
  DatasetWriter writer_;
  std::map<std::int64_t, Encoded> waiting_;
  std::int64_t next_to_write_ = 0;
  bool failed_ = false;

  TextGroups groups_;
};

}  // namespace

TokeniseSummary tokenise(const std::vector<std::filesystem::path>& files, const Tokenizer& tokenizer,
                         const std::filesystem::path& directory, const TokeniseOptions& options, Journal* journal,
                         const OnProgress& progress) {
  return Pipeline(files, tokenizer, directory, options, journal, progress).run();
}

}  // namespace oxrse::io
