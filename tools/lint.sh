#!/usr/bin/env bash
# clang-tidy (.clang-tidy) over the engine, the host's side of room cuda and the tools, or over the files given; needs a configured build/.
#
# Left out: the .cu files, because they are not in the build by their names, and what includes CUDA's headers, which clang 14 cannot parse (those of
# CUDA 13 need a newer one).
#
#   tools/lint.sh [--seconds N] [FILE.cpp...]      stops starting new files after N seconds and says how many are left
set -euo pipefail
cd "$(dirname "$0")/.."
limit=86400
case ${1:-} in
  -h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
  --seconds) [[ ${2:-} =~ ^[0-9]+$ ]] || { echo "lint: --seconds needs a number of seconds" >&2; exit 2; }; limit=$2; shift 2 ;;
  -*) echo "lint: unknown option $1, see tools/lint.sh --help" >&2; exit 2 ;;
esac
if [ $# -eq 0 ]; then
  # Another order every day, so that a limit leaves out other files each time.
  cuda_headers='^cuda/runtime/(nvidia|lt|error)\.cpp$'
  mapfile -t files < <(find engine comm io tools cuda -name '*.cpp' | grep -vE "$cuda_headers" | sort | shuf --random-source=<(yes "$(date +%j)"))
else
  files=("$@")
fi
end=$(($(date +%s) + limit))
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
export end results
# One character a file: where it is written tells how the file went.
# Without AVX512-BF16: clang refuses the vectors of bf16 pairs that gcc takes. With a std::source_location, which clang 14 lacks.
lint_one() {
  [ "$(date +%s)" -lt "$end" ] || { printf . >>"$results/left"; return; }
  local findings
  findings=$(clang-tidy -p build --quiet --extra-arg=-mno-avx512bf16 --extra-arg=-include --extra-arg="$PWD/tools/lint/source_location.h" "$1" 2>/dev/null) || printf . >>"$results/wrong"
  [ -z "$findings" ] || printf '%s\n' "$findings"
}
export -f lint_one
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" bash -c 'lint_one "$1"' _
count() { if [ -f "$results/$1" ]; then wc -c <"$results/$1"; else echo 0; fi; }
echo "lint: ${#files[@]} files, $(count wrong) with findings, $(count left) not reached within $limit s"
[ "$(count wrong)" -eq 0 ]
