#include "io/tokenizer/bpe_trainer.h"

#include <algorithm>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "engine/core/error.h"

namespace oxrse::io {
namespace {

constexpr std::int64_t kFewestTimes = 2;  // a pair that occurs once is no pattern

struct Word {
  std::size_t begin = 0;   // in the array of all symbols
  std::uint32_t size = 0;  // symbols left
  std::int64_t count = 0;
};

struct Pair {
  std::int64_t count = 0;
  std::vector<std::uint32_t> words;  // where it occurs, or did once
};

struct Candidate {
  std::int64_t count = 0;  // at least the present one
  std::int32_t left = 0, right = 0;

  /// For a heap with the most frequent pair on top.
  bool operator<(const Candidate& other) const {
    if (count != other.count) return count < other.count;
    return left != other.left ? left > other.left : right > other.right;
  }
};

class Trainer {
 public:
  explicit Trainer(const WordCounts& counts) {
    std::vector<const WordCounts::Map::value_type*> sorted;  // so that memory is walked in the same order every time
    for (const auto& entry : counts.words()) sorted.push_back(&entry);
    std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
    for (const auto* entry : sorted) add_word(entry->first, entry->second);
    pairs_.for_each([&](std::int32_t left, std::int32_t right, const Pair& pair) { heap_.push({pair.count, left, right}); });
  }

  /// The most frequent pair; nothing when none is frequent.
  std::optional<std::pair<std::int32_t, std::int32_t>> most_frequent() {
    while (!heap_.empty()) {
      const Candidate best = heap_.top();
      heap_.pop();
      const std::int64_t count = pairs_.find(best.left, best.right)->count;
      if (count < kFewestTimes) continue;
      if (count == best.count) return std::pair(best.left, best.right);
      heap_.push({count, best.left, best.right});
    }
    return std::nullopt;
  }

  /// Makes every occurrence of the pair the token `result`, a new one or, when another pair made the same bytes before, that one.
  void merge(std::int32_t left, std::int32_t right, std::int32_t result, bool is_new) {
    std::vector<std::uint32_t> words;
    words.swap(pairs_.find(left, right)->words);
    raised_.clear();
    for (const std::uint32_t word : words) merge_in_word(word, {0, left, right}, result, is_new);
    pairs_.find(left, right)->count = 0;
    for (const auto& raised : raised_) heap_.push({pairs_.find(raised.first, raised.second)->count, raised.first, raised.second});
  }

 private:
  void add_word(std::string_view bytes, std::int64_t count) {
    if (bytes.size() < 2) return;
    words_.push_back({symbols_.size(), static_cast<std::uint32_t>(bytes.size()), count});
    for (const char c : bytes) symbols_.push_back(static_cast<std::uint8_t>(c));
    const std::int32_t* symbols = symbols_.data() + words_.back().begin;
    for (std::size_t i = 0; i + 1 < bytes.size(); ++i) count_pair(symbols[i], symbols[i + 1], words_.size() - 1, count);
  }

  void count_pair(std::int32_t left, std::int32_t right, std::size_t word, std::int64_t count) {
    Pair& pair = pairs_(left, right);
    pair.count += count;
    const auto index = static_cast<std::uint32_t>(word);
    if (count > 0 && (pair.words.empty() || pair.words.back() != index)) pair.words.push_back(index);
  }

  /// Rewrites the word in place, left to right, and keeps the counts of the pairs up to date.
  void merge_in_word(std::uint32_t index, const Candidate& best, std::int32_t result, bool is_new) {
    Word& word = words_[index];
    std::int32_t* symbols = symbols_.data() + word.begin;
    std::uint32_t out = 0;
    for (std::uint32_t in = 0; in < word.size; ++out) {
      const bool found = in + 1 < word.size && symbols[in] == best.left && symbols[in + 1] == best.right;
      if (!found) {
        symbols[out] = symbols[in++];
        continue;
      }
      if (out > 0) replace(symbols[out - 1], best.left, symbols[out - 1], result, index, is_new);
      in += 2;
      if (in < word.size) replace(best.right, symbols[in], result, symbols[in], index, is_new);
      symbols[out] = result;
    }
    word.size = out;
  }

  void replace(std::int32_t old_left, std::int32_t old_right, std::int32_t new_left, std::int32_t new_right, std::uint32_t word,
               bool is_new) {
    const std::int64_t count = words_[word].count;
    count_pair(old_left, old_right, word, -count);
    const Pair* known = pairs_.find(new_left, new_right);
    if (!is_new || known == nullptr) raised_.emplace_back(new_left, new_right);  // pairs with a new token come up once, here
    count_pair(new_left, new_right, word, count);
  }

  std::vector<Word> words_;
  std::vector<std::int32_t> symbols_;
  PairMap<Pair> pairs_;
  std::priority_queue<Candidate> heap_;
  std::vector<std::pair<std::int32_t, std::int32_t>> raised_;  // pairs that the present merge made more frequent
};

}  // namespace

void WordCounts::add(std::string_view word, std::int64_t times) {
  const auto found = words_.find(word);
  if (found != words_.end()) {
    found->second += times;
  } else {
    words_.emplace(word, times);
  }
}

void WordCounts::add(const WordCounts& other) {
  for (const auto& [word, count] : other.words()) add(word, count);
}

BpeParts train_bpe(const WordCounts& counts, std::int64_t vocab, std::string_view pattern,
                   const std::function<void(std::int64_t)>& progress) {
  require(vocab >= 257, "a vocabulary of {} tokens; a byte-level BPE has at least 257: the bytes and the end of text", vocab);
  BpeParts parts;
  parts.pattern = pattern;
  for (int byte = 0; byte < 256; ++byte) parts.tokens.emplace_back(1, static_cast<char>(byte));
  std::unordered_map<std::string, std::int32_t> ids;
  Trainer trainer(counts);
  while (static_cast<std::int64_t>(parts.tokens.size()) < vocab - 1) {
    const auto pair = trainer.most_frequent();
    if (!pair) break;
    parts.merges.push_back(*pair);
    std::string joined = parts.tokens[pair->first] + parts.tokens[pair->second];
    const auto [id, is_new] = ids.emplace(joined, static_cast<std::int32_t>(parts.tokens.size()));
    trainer.merge(pair->first, pair->second, id->second, is_new);
    if (is_new) parts.tokens.push_back(std::move(joined));
    if (progress && parts.tokens.size() % 256 == 0) progress(static_cast<std::int64_t>(parts.tokens.size()));
  }
  parts.added.push_back({static_cast<std::int32_t>(parts.tokens.size()), true});
  parts.tokens.emplace_back("<|endoftext|>");
  return parts;
}

}  // namespace oxrse::io
