#define CATCH_CONFIG_RUNNER
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_session.hpp>
#else
#include <catch2/catch.hpp>
#endif

#include <cstdio>

/// A program that is stopped, because it takes too long, has then said which tests it was through with (--durations yes).
int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  return Catch::Session().run(argc, argv);
}
