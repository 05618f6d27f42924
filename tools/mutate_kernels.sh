#!/usr/bin/env bash
# Puts one mistake after the other into the kernels and runs their tests on the emulated GPU: each has to be found. Needs a built test_cuda, or
# test_kernels, which has the tests of ops and ladders.
#
#   tools/mutate_kernels.sh [--short] [--build DIR] [NAME...]      NAME: part of a mutant's name in tests/cuda/mutants.txt
#
# With a build under a sanitizer the sanitizer has to find them. Prints what found each; fails when one was not found.
set -euo pipefail
cd "$(dirname "$0")/.."
short= build=build
while [ $# -gt 0 ]; do
  case $1 in
    --short) short=1; shift ;;
    --build) build=${2-}; [ -n "$build" ] || { echo "mutate_kernels: --build needs a directory" >&2; exit 2; }; shift 2 ;;
    -h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "mutate_kernels: unknown option $1, see tools/mutate_kernels.sh --help" >&2; exit 2 ;;
    *) break ;;
  esac
done
for program in test_cuda test_kernels ''; do [ ! -x "$build/tests/$program" ] || break; done
[ -n "$program" ] || { echo "mutate_kernels: no $build/tests/test_cuda: cmake --build $build --target test_cuda" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A library's member is taken only where nothing defines its symbols before, and of a template's copies the first: so the mutated object goes first.
compile() {
  local command
  command=$(ninja -C "$build" -t commands "CMakeFiles/oxrse_cuda_emulated.dir/emulated/$1.cpp.o" | tail -1)
  command=$(sed -E "s| -o [^ ]+| -o $work/mutant.o|; s| -MF [^ ]+| -MF $work/mutant.d|; s| -I/| -w -I$work/tree -I/|; s|^[^ ]*ccache ||" <<<"$command")
  (cd "$build" && eval "$command")
}
link() {
  local command
  command=$(ninja -C "$build" -t commands "tests/$program" | tail -1)
  command=$(sed -E "s| -o tests/$program| -o $work/tests|; s| ([^ ]+\.o) | $work/mutant.o \1 |" <<<"$command")
  (cd "$build" && eval "$command")
}
refusals='wrote next to|wait at different barriers|threads wait forever|did not wait for|without a fence|that nobody waits at|more threads arrive|outside of shared memory'
# What the tests say first: a refusal of the emulation, a sanitizer's report or numbers that are wrong.
finder() {
  if grep -qE 'WARNING: ThreadSanitizer' "$work/log"; then echo "TSan: $(grep -m1 -oE 'ThreadSanitizer: [a-z ]+' "$work/log")"
  elif grep -qE 'ERROR: AddressSanitizer|runtime error' "$work/log"; then
    grep -m1 -oE 'AddressSanitizer: [a-z-]+|runtime error: .{0,60}' "$work/log"
  elif tr -s ' \n' ' ' <"$work/log" | grep -qE "$refusals"; then
    echo "refused: $(tr -s ' \n' ' ' <"$work/log" | grep -oE "$refusals" | head -1)"
  elif grep -qiE '\bnan\b' "$work/log"; then echo "NaN in results"
  else echo "wrong results"; fi
}

trim() { sed -E 's/^ +| +$//g' <<<"$1"; }

missed=0 count=0
while IFS='|' read -r name file kernel edit tests; do
  case $name in '#'* | '') continue ;; esac
  [ -z "$short" ] || [ "${name:0:1}" = + ] || continue
  name=$(trim "${name#+}") file=$(trim "$file") kernel=$(trim "$kernel") edit=$(trim "$edit") tests=$(trim "$tests")
  if [ $# -gt 0 ]; then
    wanted=
    for part in "$@"; do [[ $name != *"$part"* ]] || wanted=1; done
    [ -n "$wanted" ] || continue
  fi
  rm -rf "$work/tree" && mkdir -p "$work/tree/$(dirname "$file")"
  sed "$edit" "$file" >"$work/tree/$file"
  if cmp -s "$file" "$work/tree/$file"; then
    echo "mutate_kernels: \"$name\" changes nothing in $file: correct tests/cuda/mutants.txt" >&2
    exit 2
  fi
  compile "$kernel"
  link
  count=$((count + 1))
  if OMP_THREAD_LIMIT=1 timeout 600 "$work/tests" -a "$tests" >"$work/log" 2>&1; then
    missed=$((missed + 1))
    printf '%-45s MISSED\n' "$name"
  else
    printf '%-45s %s\n' "$name" "$(finder)"
  fi
done <tests/cuda/mutants.txt
[ "$count" -gt 0 ] || echo "mutate_kernels: no mutant in tests/cuda/mutants.txt has such a name${short:+ and is a short one}: $*" >&2
echo "$count mutants, $missed missed"
[ "$missed" -eq 0 ] && [ "$count" -gt 0 ]
