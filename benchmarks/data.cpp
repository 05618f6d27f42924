#include "benchmarks/data.h"

#include <sys/resource.h>

#include <chrono>
#include <functional>

#include "benchmarks/samples.h"
#include "engine/core/error.h"
#include "engine/train/machine.h"
#include "io/data/prepare.h"
#include "io/data/text_reader.h"
#include "io/data/train_tokenizer.h"
#include "io/files.h"

namespace oxrse::bench {
namespace {

double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// What the turns took of one kind of work.
class Turns {
 public:
  void measure(const std::function<void()>& body) {
    const auto begin = std::chrono::steady_clock::now();
    const double cpu = processor_seconds();
    body();
    cpu_.push_back(processor_seconds() - cpu);
    wall_.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  [[nodiscard]] Spent median() const { return {.wall = summarize(wall_).median, .cpu = summarize(cpu_).median}; }

 private:
  std::vector<double> wall_, cpu_;
};

/// The beginning of the text in parts that can be encoded one by one.
std::vector<std::string> first_parts(const std::vector<std::filesystem::path>& files, const io::Tokenizer& tokenizer, std::int64_t bytes) {
  io::TextReader reader(files, [&](std::string_view text, std::size_t from) { return tokenizer.cut(text, from); });
  std::vector<std::string> parts;
  while (bytes > 0) {
    auto part = reader.next();
    if (!part) break;
    bytes -= std::ssize(part->text);
    parts.push_back(std::move(part->text));
  }
  return parts;
}

std::int64_t encode(const io::Tokenizer& tokenizer, const std::vector<std::string>& parts) {
  std::int64_t count = 0;
  std::vector<std::int32_t> tokens;
  for (const std::string& part : parts) {
    tokens.clear();
    tokenizer.encode_to(tokens, part);
    count += std::ssize(tokens);
  }
  return count;
}

}  // namespace

DataResult run_data(const std::vector<std::filesystem::path>& files, std::int64_t vocab, std::int64_t encode_bytes,
                    const std::filesystem::path& directory, std::int64_t turns) {
  const std::filesystem::path scratch = io::temporary_name(directory / "oxrse-bench-data");
  DataResult result;
  result.turns = turns;
  Turns train, encoding, prepare;
  for (std::int64_t turn = 0; turn < turns; ++turn) {
    std::unique_ptr<io::Tokenizer> tokenizer;
    train.measure([&] { tokenizer = io::train_tokenizer(files, vocab, {}, {}); });
    if (turn == 0) result.train_peak_bytes = train::peak_resident_bytes();  // before anything else takes more
    const std::vector<std::string> parts = first_parts(files, *tokenizer, encode_bytes);
    result.encode_bytes = 0;
    for (const std::string& part : parts) result.encode_bytes += std::ssize(part);
    encoding.measure([&] { result.encode_tokens = encode(*tokenizer, parts); });
    prepare.measure([&] { result.bytes = io::prepare(files, *tokenizer, scratch, {}, {}).bytes; });
    std::filesystem::remove_all(scratch);
    result.vocab = tokenizer->vocab_size();
  }
  result.train = train.median();
  result.encode = encoding.median();
  result.prepare = prepare.median();
  return result;
}

std::string describe(const DataResult& r) {
  const auto line = [](const char* what, const Spent& spent, std::int64_t bytes, const std::string& more) {
    const auto megabytes = static_cast<double>(bytes) * 1e-6;
    return fmt::format("{:<9}{:>8.2f} s {:>8.2f} processor s {:>8.1f} MB/s {:>8.1f} MB/processor s   {}\n", what, spent.wall, spent.cpu,
                       megabytes / spent.wall, megabytes / spent.cpu, more);
  };
  return fmt::format("text     {:.1f} MB, {} turns, medians; all cores but for encoding\n", static_cast<double>(r.bytes) * 1e-6, r.turns) +
         line("train", r.train, r.bytes,
              fmt::format("{} tokens, {:.2f} GB at the most", r.vocab, static_cast<double>(r.train_peak_bytes) * 1e-9)) +
         line("encode", r.encode, r.encode_bytes,
              fmt::format("one thread, {:.1f} MB, {:.2f} bytes a token", static_cast<double>(r.encode_bytes) * 1e-6,
                          static_cast<double>(r.encode_bytes) / static_cast<double>(r.encode_tokens))) +
         line("prepare", r.prepare, r.bytes, "with shards on the disk");
}

Json to_json(const DataResult& r) {
  return {{"bytes", r.bytes},
          {"vocab", r.vocab},
          {"train_s", r.train.wall},
          {"train_cpu_s", r.train.cpu},
          {"train_peak_bytes", r.train_peak_bytes},
          {"encode_s", r.encode.wall},
          {"encode_cpu_s", r.encode.cpu},
          {"encode_bytes", r.encode_bytes},
          {"encode_tokens", r.encode_tokens},
          {"prepare_s", r.prepare.wall},
          {"prepare_cpu_s", r.prepare.cpu},
          {"turns", r.turns}};
}

}  // namespace oxrse::bench
