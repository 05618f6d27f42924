#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <limits>

#include "io/files.h"
#include "io/metrics/event_file.h"
#include "io/metrics/metrics_file.h"
#include "tests/catch.h"
#include "tests/io/temporary.h"

namespace oxrse::io {
namespace {

std::string hex_of(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<std::uint8_t>(c));
  return text;
}

TEST_CASE("metrics keep their precision and NaN is null") {
  const TemporaryDirectory dir;
  {
    MetricsFile file(dir / "run" / "metrics.jsonl", 0);
    file.write({{"step", 1}, {"loss", 0.1 + 0.2}, {"lr", 1e-300}, {"tokens", 9007199254740993}});
    file.write({{"step", 2}, {"loss", std::numeric_limits<double>::quiet_NaN()}, {"grad_norm", std::numeric_limits<double>::infinity()}});
  }
  CHECK(read_file(dir / "run" / "metrics.jsonl") ==
        "{\"step\":1,\"loss\":0.30000000000000004,\"lr\":1e-300,\"tokens\":9007199254740993}\n"
        "{\"step\":2,\"loss\":null,\"grad_norm\":null}\n");
}

TEST_CASE("after a crash the series goes on from the checkpoint", "[U5]") {
  const TemporaryDirectory dir;
  const auto path = dir / "metrics.jsonl";
  {
    MetricsFile file(path, 0);
    for (int step = 1; step <= 212; ++step) file.write({{"step", step}, {"loss", 1.0 / step}});
    file.write({{"step", 200}, {"val_loss", 3.5}});
  }
  put(path, read_file(path) + "{\"step\":213,\"lo");  // the kill came here
  {
    MetricsFile file(path, 200);
    file.write({{"step", 201}, {"loss", 0.5}});
  }
  std::istringstream lines(read_file(path));
  std::vector<Json> all;
  for (std::string line; std::getline(lines, line);) all.push_back(Json::parse(line));
  REQUIRE(all.size() == 202);
  for (std::size_t i = 0; i < 200; ++i) CHECK(all[i].at("step") == i + 1);
  CHECK(all[200].at("val_loss") == 3.5);
  CHECK(all[201].at("step") == 201);
  CHECK(all[201].at("loss") == 0.5);
  const std::string dropped = read_file(dir / "metrics.dropped.jsonl");
  CHECK(dropped.starts_with("{\"step\":201,\"loss\":"));
  CHECK(dropped.ends_with("{\"step\":213,\"lo\n"));
  MetricsFile(path, 201);  // nothing more to drop
  CHECK(read_file(dir / "metrics.dropped.jsonl") == dropped);
}

TEST_CASE("a record that does not fit leaves the file as it was") {
  const TemporaryDirectory dir;
  const auto path = dir / "metrics.jsonl";
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit most{25, 25};
    ::setrlimit(RLIMIT_FSIZE, &most);
    MetricsFile file(path, 0);
    file.write({{"step", 1}});
    try {
      file.write({{"step", 2}, {"loss", 0.25}});
    } catch (const Error& error) {
      ::_exit(std::string(error.what()).find("File too large") != std::string::npos ? 0 : 1);
    }
    ::_exit(2);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(read_file(path) == "{\"step\":1}\n");
}

TEST_CASE("CRC-32C of the vectors of RFC 3720") {
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aaU);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43U);
  CHECK(crc32c("123456789") == 0xe3069283U);
}

TEST_CASE("the bytes of events") {
  CHECK(hex_of(version_event(1.0)) == "09000000000000f03f1a0d627261696e2e4576656e743a32");
  CHECK(hex_of(start_event(1.0, 201)) == "09000000000000f03f10c9013a020801");
  const Scalar scalars[] = {{"a/b", 2.5}};
  CHECK(hex_of(scalars_event(1.0, 300, scalars)) == "09000000000000f03f10ac022a0c0a0a0a03612f621500002040");
  // length 3 | masked CRC | "abc" | masked CRC
  CHECK(hex_of(tf_record("abc")) == "0300000000000000b099490e6162636e57f121");
}

TEST_CASE("an event file begins with its version and the step it goes on from") {
  const TemporaryDirectory dir;
  { EventFile(dir / "tensorboard", 7).write(8, {{"loss", 1.0}, {"lr", 0.5}}); }
  std::filesystem::path path;
  for (const auto& entry : std::filesystem::directory_iterator(dir / "tensorboard")) path = entry.path();
  CHECK(path.filename().string().starts_with("events.out.tfevents."));
  const std::string bytes = read_file(path);
  const std::size_t version = 16 + version_event(0).size(), start = 16 + start_event(0, 8).size();
  const Scalar scalars[] = {{"loss", 1.0}, {"lr", 0.5}};
  REQUIRE(bytes.size() == version + start + 16 + scalars_event(0, 8, scalars).size());
  CHECK(bytes.substr(21, 15) == version_event(0).substr(9));
  CHECK(bytes.substr(version + 21, 6) == start_event(0, 8).substr(9));
}

}  // namespace
}  // namespace oxrse::io
