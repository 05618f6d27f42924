// Random inputs for what reads bytes from elsewhere. A fixed number of rounds; with OXRSE_FUZZ_SECONDS=N every case goes on for N seconds,
// from another seed each time. A failure prints the seed and the round; OXRSE_FUZZ_SEED repeats it.

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>

#include "io/safetensors/safetensors_file.h"
#include "io/tokenizer/tokenizer_json.h"
#include "tests/catch.h"
#include "tests/io/temporary.h"
#include "tests/io/tokenizer_helpers.h"

using namespace oxrse;
using namespace oxrse::io;

namespace {

using Random = std::mt19937_64;

/// Calls `round(random)` with a generator of its own for every round.
template <class Round>
void fuzz(int rounds, Round&& round) {
  using Clock = std::chrono::steady_clock;
  const char* seconds = std::getenv("OXRSE_FUZZ_SECONDS");
  const char* seed_text = std::getenv("OXRSE_FUZZ_SEED");
  std::uint64_t seed = seconds == nullptr ? 1 : std::random_device()();
  if (seed_text != nullptr) seed = std::strtoull(seed_text, nullptr, 10);
  const auto end = Clock::now() + std::chrono::duration<double>(seconds == nullptr ? 0 : std::atof(seconds));
  for (int i = 0; i < rounds || Clock::now() < end; ++i) {
    CAPTURE(seed, i);
    Random random(seed + static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15U);
    round(random);
  }
}

std::size_t below(Random& random, std::size_t bound) { return static_cast<std::size_t>(random() % bound); }

/// Bytes of any kind: noise, letters, digits, white space, characters of all lengths, their pieces, runs.
std::string any_bytes(Random& random) {
  static const std::vector<std::string> kPieces = {"a",
                                                   "Z",
                                                   "the",
                                                   " ",
                                                   "  ",
                                                   "\n",
                                                   "\r\n",
                                                   "\t",
                                                   "'s",
                                                   "'LL",
                                                   "0",
                                                   "12345",
                                                   "--",
                                                   "<|endoftext|>",
                                                   "\xc3",
                                                   "\xc3\xbc",
                                                   "\xe2\x80",
                                                   "\u2003",
                                                   "\u0301",
                                                   "\u00bd",
                                                   "\u017f",
                                                   "\u180e",
                                                   "\u4e2d\u6587",
                                                   "\xf0\x9f\x98\x80",
                                                   "\xf0\x9f\x98",
                                                   "\xed\xa0\x80",
                                                   "\xff",
                                                   "\xc0\x80",
                                                   "\xf4\x90\x80\x80",
                                                   std::string(1, '\0')};
  std::string bytes;
  for (std::size_t n = below(random, 60); n > 0; --n) {
    if (random() % 3 == 0) {
      bytes += static_cast<char>(random());
    } else {
      const std::string& piece = kPieces[below(random, kPieces.size())];
      for (std::size_t times = random() % 8 == 0 ? below(random, 200) : 1; times > 0; --times) bytes += piece;
    }
  }
  return bytes;
}

/// A small valid file, and what a fuzzer does to it.
std::string damaged_safetensors(Random& random) {
  static const std::vector<std::string> kPieces = {"{",
                                                   "}",
                                                   "[",
                                                   "]",
                                                   ",",
                                                   ":",
                                                   "\"",
                                                   "\"a\"",
                                                   "\"dtype\"",
                                                   "\"shape\"",
                                                   "\"data_offsets\"",
                                                   "\"F32\"",
                                                   "\"__metadata__\"",
                                                   "null",
                                                   "-1",
                                                   "0",
                                                   "4",
                                                   "1e9",
                                                   "18446744073709551616",
                                                   "9223372036854775807",
                                                   " "};
  std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[3],"data_offsets":[8,14]}})";
  for (std::size_t n = below(random, 4); n > 0; --n) {
    const std::size_t at = below(random, header.size());
    switch (random() % 4) {
      case 0: header[at] = static_cast<char>(random()); break;
      case 1: header.erase(at, below(random, 12)); break;
      case 2: header.insert(at, kPieces[below(random, kPieces.size())]); break;
      default: header.replace(at, below(random, 8), kPieces[below(random, kPieces.size())]);
    }
    if (header.empty()) header.push_back('{');
  }
  std::uint64_t length = header.size();
  if (random() % 8 == 0) length = random() >> (random() % 64);
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  bytes += header;
  bytes.append(14, 'x');
  if (random() % 8 == 0) bytes.resize(below(random, bytes.size()));
  if (random() % 8 == 0) bytes += any_bytes(random);
  return bytes;
}

}  // namespace

TEST_CASE("a safetensors file is refused, or all of its tensors lie in it", "[fuzz]") {
  const TemporaryDirectory directory;
  int accepted = 0, refused = 0;
  fuzz(3000, [&](Random& random) {
    const std::string bytes = damaged_safetensors(random);
    put(directory / "m.safetensors", bytes);
    try {
      const SafetensorsFile file(directory / "m.safetensors");
      std::size_t covered = 0;
      for (const auto& [name, tensor] : file.tensors()) {
        const auto data = file.bytes(tensor);
        covered += data.size();
        REQUIRE(tensor.begin >= 8);
        REQUIRE(static_cast<std::size_t>(tensor.end) <= bytes.size());
        REQUIRE((data.empty() || std::memcmp(data.data(), bytes.data() + tensor.begin, data.size()) == 0));
      }
      std::uint64_t header = 0;
      std::memcpy(&header, bytes.data(), 8);
      REQUIRE(8 + header + covered == bytes.size());
      ++accepted;
    } catch (const Error&) {
      ++refused;
    }
  });
  CHECK(accepted > 100);  // otherwise only the first check would be tried
  CHECK(refused > 100);
}

TEST_CASE("decode(encode(x)) == x for any bytes", "[fuzz]") {
  std::vector<std::unique_ptr<Tokenizer>> tokenizers;
  tokenizers.push_back(make_byte_tokenizer());
  for (const std::string_view pattern : {kGpt2Pattern, kLlama3Pattern, std::string_view()}) {
    tokenizers.push_back(std::make_unique<BpeTokenizer>(train_on(kSmallText, 380, pattern)));
  }
  tokenizers.push_back(tokenizer_from_json(tokenizers[1]->to_json(), "written"));
  fuzz(2000, [&](Random& random) {
    const std::string text = any_bytes(random);
    CAPTURE(text);
    for (const auto& tokenizer : tokenizers) {
      const std::vector<std::int32_t> tokens = tokenizer->encode(text);
      REQUIRE(tokenizer->decode(tokens) == text);
      StreamDecoder stream(*tokenizer);
      std::string streamed;
      for (const std::int32_t token : tokens) streamed += stream.push(token);
      REQUIRE(streamed + stream.finish() == text);
      // A cut where the tokenizer allows one changes no token.
      const std::size_t at = tokenizer->cut(text, below(random, text.size() + 1));
      std::vector<std::int32_t> halves = tokenizer->encode(std::string_view(text).substr(0, at));
      tokenizer->encode_to(halves, std::string_view(text).substr(at));
      REQUIRE(halves == tokens);
    }
    const std::vector<std::string> all = {"all"};
    REQUIRE(tokenizers[2]->decode(tokenizers[2]->encode(text, all)) == text);
  });
}

TEST_CASE("a damaged tokenizer.json is refused, or makes a tokenizer that works", "[fuzz]") {
  const std::string good = write_tokenizer_json(train_on(kSmallText, 262));
  int refused = 0;
  fuzz(200, [&](Random& random) {
    std::string json = good;
    for (std::size_t n = 1 + below(random, 3); n > 0; --n) {
      const std::size_t at = below(random, json.size());
      if (random() % 2 == 0) {
        json[at] = static_cast<char>(random() % 128);
      } else {
        json.erase(at, below(random, 30));
      }
    }
    try {
      const auto tokenizer = tokenizer_from_json(json, "damaged");
      const std::string text = any_bytes(random);
      REQUIRE(tokenizer->decode(tokenizer->encode(text)) == text);
    } catch (const Error&) {
      ++refused;
    }
  });
  CHECK(refused > 50);
}
