#include "engine/core/build_info.h"
#include "tools/doctor/report.h"

namespace oxrse::tools {

void examine_build(DoctorReport& report) {
  const BuildInfo& build = build_info();
  report.ok("version", "oxrse {}, commit {}", build.version, build.commit);
  // That this processor can run what -march chose was checked before main(): tools/processor.cpp.
  report.ok("compiler", "{}, {} build, -march={}, which this processor supports", build.compiler, build.build_type, build.march);
  if (build.build_type != "Release") report.note("compiler", "a {} build is slow: -DCMAKE_BUILD_TYPE=Release", build.build_type);
  if (!build.sanitizers.empty()) report.note("compiler", "built with sanitizers ({}): slow, for tests only", build.sanitizers);
}

}  // namespace oxrse::tools
