#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/error.h"
#include "io/data/open.h"
#include "tests/catch.h"
#include "tests/io/temporary.h"

namespace oxrse::io {

/// A row that owns its memory, filled with a number that no reader writes.
struct OwnedRow {
  explicit OwnedRow(std::int64_t context)
      : inputs(context, -7), targets(context, -7), positions(context, -7), document_start(context, -7) {}
  std::vector<std::int32_t> inputs, targets, positions, document_start;
};

inline OwnedRow read_row(const Dataset& data, std::int64_t n, std::int64_t context) {
  OwnedRow row(context);
  data.read(n, {.inputs = row.inputs, .targets = row.targets, .positions = row.positions, .document_start = row.document_start});
  return row;
}

inline void write_text(const std::filesystem::path& path, std::string_view text) { std::ofstream(path, std::ios::binary) << text; }

/// An llm.c shard whose header says `count` tokens, -1: as many as there are.
template <class Stored>
void write_llmc(const std::filesystem::path& path, const std::vector<Stored>& tokens, std::int32_t count = -1) {
  std::vector<std::int32_t> header(256, 0);
  header[0] = sizeof(Stored) == 2 ? 20240520 : 20240801;
  header[1] = sizeof(Stored) == 2 ? 1 : 7;
  header[2] = count < 0 ? static_cast<std::int32_t>(tokens.size()) : count;
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(header.data()), 1024);
  out.write(reinterpret_cast<const char*>(tokens.data()), static_cast<std::streamsize>(tokens.size() * sizeof(Stored)));
}

/// from, from + 1, ...
template <class Stored = std::uint16_t>
std::vector<Stored> counting(int from, int count) {
  std::vector<Stored> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(static_cast<Stored>(from + i));
  return tokens;
}

/// What the Error says that `action` throws.
inline std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "(no error)";
}

/// In order, with a cache of the test's own.
inline DataConfig config_for(const std::filesystem::path& train, const TemporaryDirectory& directory) {
  DataConfig config;
  config.train = train.string();
  config.order = "sequential";
  config.cache = (directory / "cache").string();
  return config;
}

}  // namespace oxrse::io
