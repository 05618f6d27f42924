// Names of kernels and what nvcc said of them.
#include "cuda/kernel_name.h"
#include "cuda/resources.h"
#include "engine/core/error.h"
#include "tests/catch.h"

using namespace oxrse::cuda;
using Catch::Matchers::Contains;

TEST_CASE("kernels are named as in the table, by gcc and by nvcc") {
  CHECK(kernel_name("void f(A&&) [with auto kKernel = {anonymous}::fill<oxrse::bf16>; A = {int, std::pair<int, int>}]") == "fill<bf16>");
  CHECK(kernel_name("void f() [with auto kKernel = oxrse::cuda_emulated::{anonymous}::cast<oxrse::bf16, double>; A = {}]") ==
        "cast<bf16, double>");
  CHECK(kernel_name("void f<kKernel,A>(A) [with kKernel=&oxrse::cuda::<unnamed>::forward<oxrse::f16, 64>, A=<int>]") == "forward<f16, 64>");
  CHECK(kernel_name("void f() [with auto kKernel = {anonymous}::add_up]") == "add_up");
  CHECK_THROWS_WITH(kernel_name("void f()"), Contains("no kernel in"));
}

TEST_CASE("the table of resources is read, and a line that is none is named") {
  const std::string head = "nvcc 13.0, ...\ngpu       regs stack stores  loads  kernel\n";
  const auto rows = parse_resources(head + "sm_80       30    40      8      4  elementwise fill_normal<bf16>\n");
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].gpu == "sm_80");
  CHECK(rows[0].kernel == "fill_normal<bf16>");
  CHECK(rows[0].registers == 30);
  CHECK(rows[0].local == 40);
  CHECK_THROWS_WITH(parse_resources(head + "sm_80 thirty"), Contains("cuda/resources.txt:3"));
  REQUIRE(resources_of("rmsnorm_forward<bf16>") != nullptr);
  CHECK(resources_of("rmsnorm_forward<bf16>")->registers > 0);
  CHECK(resources_of("nothing<bf16>") == nullptr);
  CHECK_THAT(resources_origin(), Contains("sm_80, nvcc 13."));
}
