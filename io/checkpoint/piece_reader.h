#pragma once

#include <filesystem>

#include "engine/core/tensor.h"
#include "io/checkpoint/manifest.h"

namespace oxrse::io {

/// A file of a checkpoint is not what was written.
class Damage : public Error {
 public:
  using Error::Error;
};

/// Copies what `piece` of `tensor` and the region `wanted` of the same tensor have in common to `out`, which is `wanted` (contiguous, of
/// any floating type). Reads the whole piece, a few MiB at a time and straight into `out` where it can (a compressed one as a whole);
/// Damage when the piece's checksum differs: then `out` holds garbage. Opens the file only when they have something in common.
void read_piece(const std::filesystem::path& file, const StoredTensor& tensor, const Piece& piece, const Region& wanted, const Tensor& out);

/// Whether the bytes of an uncompressed piece are those that were written. A file that cannot be read is an Error.
bool intact(const std::filesystem::path& file, const StoredTensor& tensor, const Piece& piece);

}  // namespace oxrse::io
