#include "io/file_stream.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "io/checksum.h"
#include "io/files.h"
#include "tests/catch.h"
#include "tests/io/temporary.h"

namespace oxrse::io {
namespace {

TEST_CASE("an atomic file is replaced as a whole or not at all") {
  const TemporaryDirectory dir;
  const auto path = dir / "a.txt";
  write_file_atomically(path, "old");
  {
    AtomicFile half(path);
    half.write("new but not comm");
  }
  CHECK(read_file(path) == "old");
  write_file_atomically(path, "");
  CHECK(read_file(path).empty());
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 1);
}

TEST_CASE("two writers of the same file each commit a whole one") {
  const TemporaryDirectory dir;
  const auto path = dir / "cache";
  AtomicFile first(path), second(path);
  first.write("first");
  second.write("second");
  first.commit();
  CHECK(read_file(path) == "first");
  second.commit();
  CHECK(read_file(path) == "second");
}

TEST_CASE("the checksum of a file is that of its bytes") {
  const TemporaryDirectory dir;
  std::string bytes(std::size_t{1} << 25U, 'x');  // several pieces
  bytes += "odd end";
  write_file_atomically(dir / "big", bytes);
  CHECK(xxh3_of_file(dir / "big") == xxh3(bytes));
  CHECK(hex(xxh3(std::string_view())) == "2d06800538d394c2");  // the XXH3 of nothing, from the specification's reference
}

TEST_CASE("errors of files name the file") {
  const TemporaryDirectory dir;
  CHECK_THROWS_WITH(InputFile(dir / "absent"), Catch::Contains("absent") && Catch::Contains("No such file"));
  CHECK_THROWS_WITH(InputFile(dir.path()), Catch::Contains("not a regular file"));
  REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);  // opening one waits for a writer, unless it is told not to
  CHECK_THROWS_WITH(InputFile(dir / "pipe"), Catch::Contains("not a regular file"));
  CHECK_THROWS_WITH(MappedFile(dir / "pipe"), Catch::Contains("not a regular file"));
  CHECK_THROWS_WITH(AtomicFile(dir / "no" / "such"), Catch::Contains("No such file"));
  write_file_atomically(dir / "short", "12345");
  std::byte out[4];
  CHECK_THROWS_WITH(InputFile(dir / "short").read(out, 3), Catch::Contains("ends at byte 5"));
}

}  // namespace
}  // namespace oxrse::io
