#include <cstring>
#include <numeric>
#include <random>

#include "io/files.h"
#include "io/safetensors/safetensors_model.h"
#include "io/safetensors/safetensors_writer.h"
#include "tests/catch.h"
#include "tests/io/temporary.h"

namespace oxrse::io {
namespace {

using Catch::Contains;

std::string file_with(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

std::string why_refused(const std::string& bytes) {
  static const TemporaryDirectory dir;
  put(dir / "m.safetensors", bytes);
  try {
    const SafetensorsFile file(dir / "m.safetensors");
  } catch (const Error& error) {
    CHECK_THAT(error.what(), Contains("m.safetensors"));
    return error.what();
  }
  return "accepted";
}

TEST_CASE("a tensor written otherwise than announced is refused and no file appears") {
  const TemporaryDirectory dir;
  const float a[] = {1.5F, -2.0F, 3.25F};
  SafetensorsWriter writer(dir / "m.safetensors", {{"a", DType::F32, {3, 1}}, {"none", DType::F32, {0, 4}}, {"b", DType::BF16, {}}});
  writer.write(ConstTensor(reinterpret_cast<const std::byte*>(a), DType::F32, {3, 1}));
  writer.write(ConstTensor(nullptr, DType::F32, {0, 4}));
  CHECK_THROWS_WITH(writer.write(ConstTensor(reinterpret_cast<const std::byte*>(a), DType::F32, {1})), Contains("b written as f32(1)"));
  CHECK_FALSE(std::filesystem::exists(dir / "m.safetensors"));
}

TEST_CASE("the bytes of a small safetensors file") {
  const TemporaryDirectory dir;
  const float a[] = {1.0F, -2.0F};
  SafetensorsWriter writer(dir / "m.safetensors", {{"a", DType::F32, {2}}});
  CHECK_THROWS_WITH(writer.commit(), Contains("tensor a was announced but not written"));
  writer.write(ConstTensor(reinterpret_cast<const std::byte*>(a), DType::F32, {2}));
  writer.commit();
  const std::string header = R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  std::string padded = header;
  while (padded.size() % 8 != 0) padded += ' ';
  CHECK(read_file(dir / "m.safetensors") == file_with(padded, std::string("\0\0\x80\x3f\0\0\0\xc0", 8)));
  const SafetensorsFile file(dir / "m.safetensors");
  CHECK(file.at("a").shape == std::vector<std::int64_t>{2});
  CHECK(std::memcmp(file.bytes(file.at("a")).data(), a, sizeof a) == 0);
  CHECK_THROWS_WITH(file.at("x"), Contains("no tensor x"));
}

TEST_CASE("malicious and damaged safetensors headers are refused with the reason") {
  const std::string data(8, 'x');
  const auto tensor = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
  };
  const std::string good = tensor("F32", "[2]", "[0,8]");
  CHECK(why_refused(file_with("{\"a\":" + good + "}", data)) == "accepted");
  CHECK(why_refused(file_with("{\"a\":" + good + "}   ", data)) == "accepted");
  CHECK(why_refused(file_with("{}", "")) == "accepted");

  CHECK_THAT(why_refused(""), Contains("only 0 bytes"));
  CHECK_THAT(why_refused(std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10)), Contains("a header of 18446744073709551615 bytes"));
  CHECK_THAT(why_refused(file_with("{\"a\":" + good, data)), Contains("the header"));
  CHECK_THAT(why_refused(file_with(" {\"a\":" + good + "}", data)), Contains("does not start with '{'"));
  CHECK_THAT(why_refused(file_with("{\"a\":" + good + "} x", data)), Contains("the header"));
  CHECK_THAT(why_refused(file_with("{\"a\":" + good + ",\"a\":" + good + "}", data)), Contains("'a' appears twice"));
  CHECK_THAT(why_refused(file_with("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]}}", data)),
             Contains("'dtype' appears twice"));
  CHECK_THAT(why_refused(file_with("{\"a\":{\"b\":{\"c\":{}}}}", data)), Contains("nested too deeply"));
  CHECK_THAT(why_refused(file_with("{\"a\":" + std::string(1000000, '['), data)), Contains("nested too deeply"));
  CHECK_THAT(why_refused(file_with("{\"a\":" + tensor("F32", "[2]", "[0,9]") + "}", data)),
             Contains("tensor a") && Contains("0 to 9 of 8"));
  CHECK_THAT(why_refused(file_with("{\"a\":" + tensor("F32", "[3]", "[0,8]") + "}", data)), Contains("tensor a") && Contains("need 12"));
  CHECK_THAT(why_refused(file_with("{\"a\":" + tensor("F32", "[2]", "[8,0]") + "}", data)), Contains("8 to 0"));
  CHECK_THAT(why_refused(file_with("{\"a\":" + tensor("F31", "[2]", "[0,8]") + "}", data)), Contains("unknown dtype 'F31'"));
  CHECK_THAT(why_refused(file_with("{\"a\":" + tensor("F32", "[-2]", "[0,8]") + "}", data)), Contains("-2 is no size"));
  CHECK_THAT(why_refused(file_with("{\"a\":" + tensor("F32", "[2.0]", "[0,8]") + "}", data)), Contains("is no size"));
  CHECK_THAT(why_refused(file_with("{\"a\":" + tensor("F32", "[4611686018427387904,4]", "[0,0]") + "}", data)), Contains("overflows"));
  CHECK_THAT(why_refused(file_with("{\"a\":" + tensor("F32", "[9223372036854775808]", "[0,0]") + "}", data)), Contains("is no size"));
  CHECK_THAT(why_refused(file_with("{\"a\":" + good + "}", data + "y")), Contains("1 bytes after the last tensor"));
  CHECK_THAT(why_refused(file_with("{\"a\":" + tensor("U8", "[4]", "[0,4]") + ",\"b\":" + tensor("U8", "[5]", "[3,8]") + "}", data)),
             Contains("tensor b begins"));
  CHECK_THAT(why_refused(file_with("{\"a\":" + tensor("U8", "[3]", "[0,3]") + ",\"b\":" + tensor("U8", "[4]", "[4,8]") + "}", data)),
             Contains("tensor b begins"));
  CHECK_THAT(why_refused(file_with("{\"__metadata__\":{\"a\":1},\"a\":" + good + "}", data)), Contains("strings only"));
  CHECK_THAT(why_refused(file_with("{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", data)), Contains("expected dtype, shape and data_offsets"));
  for (const char* wrong : {R"("dtype":5,"shape":[2])", R"("dtype":"F32","shape":null)", R"("dtype":"F32","shape":{"a":2})"}) {
    CHECK_THAT(why_refused(file_with(std::string("{\"a\":{") + wrong + ",\"data_offsets\":[0,8]}}", data)),
               Contains("shape a list of sizes"));
  }
  CHECK_THAT(why_refused(file_with("{\"a\":{\"dtype\":1,\"shape\":[2],\"data_offsets\":[0,8]}}", data)), Contains("tensor a"));
  CHECK_THAT(why_refused(file_with("[]", "")), Contains("does not start"));
}

TEST_CASE("no damaged safetensors file does harm") {
  const std::string good =
      file_with(R"({"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[3],"data_offsets":[8,14]}})",
                std::string(14, 'x'));
  std::mt19937 random(11);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = good;
    for (auto n = random() % 3; n > 0; --n) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    why_refused(bytes);  // an Error or a file whose every byte is accounted for
  }
}

TEST_CASE("weights in several files are found by their index") {
  const TemporaryDirectory dir;
  const std::string one = file_with(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "1");
  const std::string two = file_with(R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "22");
  put(dir / "model-1.safetensors", one);
  put(dir / "model-2.safetensors", two);
  const auto index = [&](const std::string& map) { put(dir / "model.safetensors.index.json", R"({"weight_map":)" + map + "}"); };
  CHECK_THROWS_WITH(SafetensorsModel(dir.path()), Contains("neither"));
  index(R"({"a":"model-1.safetensors","b":"model-2.safetensors"})");
  const SafetensorsModel model(dir.path());
  CHECK(model.names() == std::vector<std::string>{"a", "b"});
  CHECK(model.bytes("b").size() == 2);
  CHECK_THROWS_WITH(model.at("c"), Contains("no tensor c"));
  index(R"({"a":"model-1.safetensors","c":"model-2.safetensors"})");
  CHECK_THROWS_WITH(SafetensorsModel(dir.path()), Contains("holds tensor c"));
  index(R"({"a":"../model-1.safetensors"})");
  CHECK_THROWS_WITH(SafetensorsModel(dir.path()), Contains("no file name"));
  put(dir / "model-2.safetensors", one);
  index(R"({"a":"model-1.safetensors","b":"model-2.safetensors"})");
  CHECK_THROWS_WITH(SafetensorsModel(dir.path()), Contains("tensor a is in"));
}

}  // namespace
}  // namespace oxrse::io
