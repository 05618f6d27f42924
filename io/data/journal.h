#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "io/checksum.h"
#include "io/data/dataset_writer.h"
#include "io/data/text_reader.h"

namespace oxrse::io {

/// What lets tokenise() go on after it was killed, in hidden files next to the shards: .journal.cbor, replaced as a whole whenever shards
/// have been completed, and .journal_00000.documents, ..., the hashes of the documents met between two replacements.
class Journal {
 public:
  struct State {
    TextPosition reader;
    DatasetWriter::State writer;
    std::vector<Hash128> documents;
  };

  /// `key` stands for all that the result depends on. Reads what an earlier process left in the directory and removes what that one wrote
  /// after it last saved. An Error when it was at work on something else, or a file is damaged.
  Journal(std::filesystem::path directory, std::uint64_t key);

  /// Where to go on; nothing when there is no beginning. Gives it away.
  [[nodiscard]] std::optional<State> take() { return std::exchange(state_, std::nullopt); }
  /// Whether something was saved, by this process or an earlier one.
  [[nodiscard]] bool has_saved() const { return saves_ > 0; }

  void add_document(Hash128 document) { documents_.push_back(document); }
  /// The shards of `writer` are on the disk; so is this when the call returns.
  void save(const TextPosition& reader, const DatasetWriter::State& writer);
  /// Removes the files of a journal from a directory that is complete.
  static void erase(const std::filesystem::path& directory);

 private:
  [[nodiscard]] std::filesystem::path file() const { return directory_ / ".journal.cbor"; }
  [[nodiscard]] std::filesystem::path documents_file(std::int64_t i) const;
  void read();
  void remove_unsaved() const;

  std::filesystem::path directory_;
  std::uint64_t key_;
  std::optional<State> state_;
  std::int64_t saves_ = 0;
  std::vector<Hash128> documents_;  // since the last save
};

}  // namespace oxrse::io
