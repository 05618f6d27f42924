#include "io/checkpoint/piece_reader.h"

#include <algorithm>
#include <cstring>

#include "io/checkpoint/hdf5.h"
#include "io/checkpoint/shard.h"
#include "io/checksum.h"
#include "io/convert.h"

namespace oxrse::io {
namespace {

struct CommonRun {
  std::int64_t in_piece, in_out, length;
  [[nodiscard]] std::int64_t end() const { return in_piece + length; }
};

std::vector<CommonRun> common_runs(const StoredTensor& tensor, const Piece& piece, const Region& wanted) {
  std::vector<CommonRun> runs;
  for_each_common_run(Runs(piece.region, tensor.shape), Runs(wanted, tensor.shape),
                      [&](std::int64_t in_piece, std::int64_t in_out, std::int64_t length) {
                        runs.push_back({in_piece, in_out, length});
                      });
  return runs;
}

/// Elements [begin, begin + count) of a contiguous tensor.
template <class Byte>
BasicTensor<Byte> elements(const BasicTensor<Byte>& tensor, std::int64_t begin, std::int64_t count) {
  return {tensor.address() + begin * size_of(tensor.dtype()), tensor.dtype(), {count}};
}

std::span<std::byte> bytes_of(const Tensor& tensor) { return {tensor.address(), static_cast<std::size_t>(tensor.bytes())}; }

/// Reads the bytes of a piece, first to last.
class PieceFile {
 public:
  PieceFile(const std::filesystem::path& path, const StoredTensor& tensor, const Piece& piece)
      : file_(path), piece_(piece), size_(size_of(tensor.dtype)) {
    if (!piece.compressed) return;
    unpacked_.resize(static_cast<std::size_t>(piece.region.count() * size_));
    const Tensor whole(unpacked_.data(), tensor.dtype, piece.region.shape);
    hdf5::read_elements(hdf5::open_file(path), dataset_path(tensor.name, tensor.part), whole);
  }
  /// The elements from number `begin` on.
  void read(std::int64_t begin, const Tensor& out) {
    if (out.bytes() == 0) return;
    if (piece_.compressed) {
      std::memcpy(out.address(), unpacked_.data() + begin * size_, static_cast<std::size_t>(out.bytes()));
    } else {
      file_.read(bytes_of(out), piece_.position + begin * size_);
    }
    checksum_.add(bytes_of(out));
  }
  [[nodiscard]] bool intact() const { return hex(checksum_.value()) == piece_.xxh3; }

 private:
  InputFile file_;
  const Piece& piece_;
  std::int64_t size_;
  std::vector<std::byte> unpacked_;
  Xxh3 checksum_;
};

constexpr std::int64_t kWindow = std::int64_t{1} << 19U;  // elements read at a time

Damage damage_in(const std::filesystem::path& path, const StoredTensor& tensor, const std::string& what) {
  return Damage(fmt::format("{} is damaged: {} tensor {}", path.string(), what, tensor.label()));
}

/// Opens a piece; what HDF5 cannot decompress is Damage.
PieceFile open_piece(const std::filesystem::path& path, const StoredTensor& tensor, const Piece& piece) {
  try {
    return {path, tensor, piece};
  } catch (const Error& error) {
    if (!piece.compressed) throw;
    throw damage_in(path, tensor, fmt::format("{} in", error.what()));
  }
}

}  // namespace

void read_piece(const std::filesystem::path& path, const StoredTensor& tensor, const Piece& piece, const Region& wanted,
                const Tensor& out) {
  const std::vector<CommonRun> runs = common_runs(tensor, piece, wanted);
  if (runs.empty()) return;
  PieceFile file = open_piece(path, tensor, piece);
  const std::int64_t count = piece.region.count();
  std::vector<std::byte> memory;
  auto run = runs.begin();
  for (std::int64_t begin = 0; begin < count; begin += kWindow) {
    const std::int64_t end = std::min(begin + kWindow, count);
    const bool straight = out.dtype() == tensor.dtype && run != runs.end() && run->in_piece <= begin && end <= run->end();
    if (!straight) memory.resize(static_cast<std::size_t>(std::min(kWindow, count) * size_of(tensor.dtype)));
    const Tensor window =
        straight ? elements(out, run->in_out + begin - run->in_piece, end - begin) : Tensor(memory.data(), tensor.dtype, {end - begin});
    file.read(begin, window);
    for (auto r = run; !straight && r != runs.end() && r->in_piece < end; ++r) {
      const std::int64_t from = std::max(r->in_piece, begin), length = std::min(r->end(), end) - from;
      convert(elements(out, r->in_out + from - r->in_piece, length), elements(ConstTensor(window), from - begin, length));
    }
    while (run != runs.end() && run->end() <= end) ++run;
  }
  if (!file.intact()) throw damage_in(path, tensor, "a checksum differs,");
}

bool intact(const std::filesystem::path& path, const StoredTensor& tensor, const Piece& piece) {
  Xxh3 checksum;
  checksum.add(InputFile(path), piece.position, piece.position + piece.region.count() * size_of(tensor.dtype));
  return hex(checksum.value()) == piece.xxh3;
}

}  // namespace oxrse::io
