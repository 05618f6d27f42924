#include "io/mapped_output.h"

#include <cstring>
#include <utility>

#include "io/files.h"
#include "tests/catch.h"
#include "tests/io/memory_file_system.h"
#include "tests/io/temporary.h"

using namespace oxrse;
using namespace oxrse::io;
using Catch::Contains;

TEST_CASE("what is written to mapped memory is in the file") {
  const TemporaryDirectory dir;
  for (const std::int64_t bytes : {1, 4095, 4096, 4097, 1'000'003}) {
    const auto path = dir / std::to_string(bytes);
    {
      MappedOutput file(path, bytes);
      std::memset(file.data(), 'x', static_cast<std::size_t>(bytes));
      const MappedOutput moved = std::move(file);
      moved.data()[bytes - 1] = std::byte{'!'};
    }
    CHECK(read_file(path) == std::string(static_cast<std::size_t>(bytes) - 1, 'x') + "!");
    CHECK_THROWS_WITH(MappedOutput(path, bytes), Contains("cannot create " + path.string()));
  }
  CHECK(MappedOutput(dir / "empty", 0).data() == nullptr);
  CHECK(read_file(dir / "empty").empty());
}

TEST_CASE("room for a mapped file is taken at once: where there is none it is an error") {
  if (!has_memory_file_system()) return;
  const MemoryRoot root;
  CHECK_THROWS_WITH(MappedOutput(root.path() / "file", std::int64_t{1} << 50), Contains("no room for " + (root.path() / "file").string()));
}
