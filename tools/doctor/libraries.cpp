#include <CLI/CLI.hpp>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <cblas.h>
#include <hdf5.h>
#include <pcre2.h>
#include <xxhash.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "engine/core/build_info.h"
#include "engine/core/philox.h"
#include "engine/cpu/gemm.h"
#include "io/model_zoo.h"
#include "tools/doctor/report.h"

namespace oxrse::tools {
namespace {

/// Two matrices, their product with B transposed, and room for the product by a library.
template <class T>
class ProductCheck {
 public:
  ProductCheck() : a_(kM * kK), b_(kN * kK), c_(kM * kN) {
    const RandomStream random(1, stream_of("doctor"));
    std::uint64_t i = 0;
    for (T& x : a_) x = static_cast<T>(random.uniform(i++) - 0.5);
    for (T& x : b_) x = static_cast<T>(random.uniform(i++) - 0.5);
  }

  /// The largest error of an element of `multiply(m, n, k, a, b, c)` against sums in double, relative to the rounding error that is to be
  /// expected; NaN counts.
  template <class Multiply>
  double relative_error(const Multiply& multiply) {
    multiply(kM, kN, kK, a_.data(), b_.data(), c_.data());
    double worst = 0;
    for (std::int64_t i = 0; i < kM; ++i) {
      for (std::int64_t j = 0; j < kN; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < kK; ++l) sum += static_cast<double>(a_[i * kK + l]) * static_cast<double>(b_[j * kK + l]);
        const double error = std::abs(sum - static_cast<double>(c_[i * kN + j]));
        if (!(error <= worst)) worst = error;
      }
    }
    // K products of at most 1/4, each addition rounded once: far above what is seen, far below what a wrong kernel gives.
    return worst / (static_cast<double>(std::numeric_limits<T>::epsilon()) * kK);
  }

 private:
  // Odd sizes that reach the edges of the kernels' tiles.
  static constexpr std::int64_t kM = 67, kN = 131, kK = 259;
  std::vector<T> a_, b_, c_;
};

void report_product(DoctorReport& report, std::string_view name, std::string_view what, double error, std::string_view advice) {
  if (error <= 1) {
    report.ok(name, "{} is right", what);
  } else {
    report.problem(name, "{} is WRONG (error {:.2g} times the largest by rounding): {}", what, error, advice);
  }
}

void examine_blas(DoctorReport& report) {
  constexpr std::string_view kAdvice = "OpenBLAS does not know this processor; set OPENBLAS_CORETYPE=Haswell, or install a newer one";
  report.ok("OpenBLAS", "{}, kernels for {}", openblas_get_config(), openblas_get_corename());
  const auto narrow = [](std::int64_t size) { return static_cast<int>(size); };
  ProductCheck<float> single;
  report_product(report, "OpenBLAS", "sgemm", single.relative_error([&](auto m, auto n, auto k, auto* a, auto* b, auto* c) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, narrow(m), narrow(n), narrow(k), 1, a, narrow(k), b, narrow(k), 0, c, narrow(n));
  }),
                 kAdvice);
  ProductCheck<double> twice;
  report_product(report, "OpenBLAS", "dgemm", twice.relative_error([&](auto m, auto n, auto k, auto* a, auto* b, auto* c) {
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, narrow(m), narrow(n), narrow(k), 1, a, narrow(k), b, narrow(k), 0, c, narrow(n));
  }),
                 kAdvice);
}

template <class T>
double engine_error() {
  ProductCheck<T> check;
  return check.relative_error([](auto m, auto n, auto k, auto* a, auto* b, auto* c) {
    const auto view = [](auto* data, std::int64_t rows, std::int64_t columns) {
      return Tensor(reinterpret_cast<std::byte*>(data), dtype_of<T>, {rows, columns});
    };
    cpu::gemm(Cpu{1}, {.c = view(c, m, n), .a = view(a, m, k), .b = view(b, n, k), .transpose_b = true});
  });
}

void examine_hdf5(DoctorReport& report) {
  unsigned major = 0, minor = 0, patch = 0;
  hbool_t is_thread_safe = false;
  H5get_libversion(&major, &minor, &patch);
  H5is_library_threadsafe(&is_thread_safe);
  const char* locking = std::getenv("HDF5_USE_FILE_LOCKING");
  report.ok("HDF5", "{}.{}.{}, {}thread-safe, HDF5_USE_FILE_LOCKING {}", major, minor, patch, is_thread_safe ? "" : "not ",
            locking == nullptr ? "not set (files are locked)" : locking);
}

void examine_pcre2(DoctorReport& report) {
  std::array<char, 64> version{};
  std::uint32_t unicode = 0, jit = 0;
  pcre2_config(PCRE2_CONFIG_VERSION, version.data());
  pcre2_config(PCRE2_CONFIG_UNICODE, &unicode);
  pcre2_config(PCRE2_CONFIG_JIT, &jit);
  if (unicode == 0) {
    report.problem("PCRE2", "{} is built without Unicode, which tokenizers need", version.data());
  } else {
    report.ok("PCRE2", "{}, Unicode, {}", version.data(), jit != 0 ? "compiles patterns" : "without a pattern compiler: slow");
  }
}

void examine_model_zoo(DoctorReport& report) {
  try {
    report.ok("model zoo", "{} with {} models", io::model_zoo().string(), io::model_zoo_entries("models").size());
  } catch (const Error& error) {
    report.problem("model zoo", "{}", error.what());
  }
}

}  // namespace

void examine_libraries(DoctorReport& report) {
  const BuildInfo& build = build_info();
  const bool has_onednn = build.onednn.starts_with("built in");
  if (has_onednn) {
    report.ok("oneDNN", "{}", build.onednn);
  } else {
    report.note("oneDNN", "{}; f32 products are OpenBLAS's, which is slower", build.onednn);
  }
  examine_blas(report);
  report_product(report, "products", "the engine's f32 product", engine_error<float>(), "see the libraries above");
  report_product(report, "products", "the engine's f64 product", engine_error<double>(), "see the libraries above");
  examine_hdf5(report);
  examine_pcre2(report);
  report.ok("others", "fmt {}.{}.{}, nlohmann/json {}.{}.{}, CLI11 {}, xxHash {}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100,
            FMT_VERSION % 100, NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH, CLI11_VERSION,
            XXH_VERSION_MAJOR, XXH_VERSION_MINOR, XXH_VERSION_RELEASE);
  if (build.cuda.starts_with("built in")) {
    report.ok("CUDA", "{}: run.device \"cuda\"", build.cuda);
  } else {
    report.note("CUDA", "{}", build.cuda);
  }
  if (build.cuda_emulation.starts_with("built in")) {
    report.ok("CUDA kernels", "on the CPU: run.device \"cuda-emulated\", for tests and debugging");
  } else {
    report.note("CUDA kernels", "on the CPU (run.device \"cuda-emulated\"): {}", build.cuda_emulation);
  }
  if (build.mpi.starts_with("built in")) {
    report.ok("MPI", "{}", build.mpi);
  } else {
    report.note("MPI", "{}: training runs as one process", build.mpi);
  }
  if (build.nccl.starts_with("built in")) {
    report.ok("NCCL", "{}: ranks with run.device \"cuda\" sum by it", build.nccl);
  } else {
    report.note("NCCL", "{}", build.nccl);
  }
  examine_model_zoo(report);
}

}  // namespace oxrse::tools
