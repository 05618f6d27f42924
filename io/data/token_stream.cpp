#include "io/data/token_stream.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/core/error.h"
#include "io/checksum.h"

namespace oxrse::io {

void TokenStream::append(std::shared_ptr<const TokenShard> shard, std::int64_t begin, std::int64_t count, bool new_file) {
  if (count == 0) return;
  bool continues = !segments_.empty();
  if (continues) {
    const Segment& last = segments_.back();
    const bool next_part = last.shard == shard && last.begin + last.count == begin;
    const bool next_shard = last.shard != shard && last.begin + last.count == last.shard->size() && begin == 0;
    continues = next_part || next_shard;
  }
  ends_.push_back(size() + count);
  segments_.push_back({std::move(shard), begin, count, new_file, continues});
}

void TokenStream::append(const TokenStream& other) {
  for (const Segment& segment : other.segments_) append(segment.shard, segment.begin, segment.count, segment.new_file);
}

std::uint64_t TokenStream::fingerprint() const {
  std::vector<std::uint64_t> parts;
  for (const Segment& segment : segments_) {
    parts.push_back(segment.shard->fingerprint());
    parts.push_back(static_cast<std::uint64_t>(segment.begin));
    parts.push_back(static_cast<std::uint64_t>(segment.count));
  }
  return xxh3(std::as_bytes(std::span(parts)));
}

std::size_t TokenStream::segment_of(std::int64_t position) const {
  require(0 <= position && position < size(), "token {} of a stream of {}", position, size());
  return static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), position) - ends_.begin());
}

void TokenStream::read(std::int64_t begin, std::span<std::int32_t> tokens) const {
  while (!tokens.empty()) {
    const std::size_t i = segment_of(begin);
    const std::int64_t n = std::min(ends_[i] - begin, static_cast<std::int64_t>(tokens.size()));
    const Segment& segment = segments_[i];
    segment.shard->read(segment.begin + segment.count - (ends_[i] - begin), tokens.first(n));
    tokens = tokens.subspan(n);
    begin += n;
  }
}

std::vector<std::int64_t> TokenStream::document_starts(std::int64_t begin, std::span<const std::int32_t> tokens,
                                                       std::optional<std::int32_t> end_of_text) const {
  std::vector<std::int64_t> starts;
  const auto count = static_cast<std::int64_t>(tokens.size());
  std::int64_t done = 0;
  while (done < count) {
    const std::size_t s = segment_of(begin + done);
    const Segment& segment = segments_[s];
    const std::int64_t n = std::min(ends_[s] - begin - done, count - done);
    const std::int64_t first = segment.begin + segment.count - (ends_[s] - begin - done);  // in the shard
    const bool jump = first == segment.begin && !segment.continues && done > 0;
    if (jump) starts.push_back(done);
    if (const auto& table = segment.shard->documents()) {
      auto next = std::lower_bound(table->begin(), table->end(), first);
      for (; next != table->end() && *next < first + n; ++next) {
        const std::int64_t at = done + *next - first;
        if (at > 0 && !(jump && at == done)) starts.push_back(at);
      }
    } else if (end_of_text) {
      for (std::int64_t i = std::max<std::int64_t>(done, 1); i < done + n; ++i) {
        if (tokens[i - 1] == *end_of_text && !(jump && i == done)) starts.push_back(i);
      }
    }
    done += n;
  }
  return starts;
}

bool TokenStream::knows_documents(std::optional<std::int32_t> end_of_text) const {
  return end_of_text || std::all_of(segments_.begin(), segments_.end(), [](const Segment& s) { return s.shard->documents().has_value(); });
}

std::string TokenStream::locate(std::int64_t token) const {
  const std::size_t i = segment_of(token);
  const Segment& segment = segments_[i];
  const std::int64_t in_shard = segment.begin + segment.count - (ends_[i] - token);
  return fmt::format("{}, byte {}", segment.shard->path().string(), segment.shard->offset_of(in_shard));
}

void TokenStream::append_range(const TokenStream& other, std::int64_t begin, std::int64_t end) {
  bool new_file = true;
  while (begin < end) {
    const std::size_t i = other.segment_of(begin);
    const Segment& segment = other.segments_[i];
    const std::int64_t n = std::min(end, other.ends_[i]) - begin;
    append(segment.shard, segment.begin + segment.count - (other.ends_[i] - begin), n, new_file);
    new_file = false;
    begin += n;
  }
}

std::pair<TokenStream, TokenStream> TokenStream::hold_out(double fraction) const {
  std::pair<TokenStream, TokenStream> result;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const bool last_of_file = i + 1 == segments_.size() || segments_[i + 1].new_file;
    if (!last_of_file) continue;
    const std::int64_t end = ends_[i];
    const auto held_out = static_cast<std::int64_t>(std::floor(static_cast<double>(end - begin) * fraction));
    result.first.append_range(*this, begin, end - held_out);
    result.second.append_range(*this, end - held_out, end);
    begin = end;
  }
  return result;
}

}  // namespace oxrse::io
