#!/usr/bin/env bash
# Builds Oxrse for the GPU of this machine, tests its kernels there and measures them. Meant to take less than 8 minutes; stages have limits.
#
#   tools/gpu_check.sh [--out DIR] [--build DIR] [--rehearse]
#
# --out      where results go, as JSON and text: gpu_check/ without it
# --build    where it builds: build-cuda/ without it; kept, so that a second call starts at once
# --rehearse the same stages on the emulated GPU with a tiny model, to try this script where there is no GPU; times are left out
#
# Needs what tools/setup.sh installs and, but for --rehearse, the CUDA toolkit. Exits with 0 only when every stage that ran was good.
# shellcheck disable=SC2317  # functions are called through stage
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
out=gpu_check build=build-cuda device=cuda model=gpt2/124m steps=100 preset=cuda patience=1
needs_directory() { [ -n "$2" ] || { echo "gpu_check: $1 needs a directory" >&2; exit 2; }; }
while [ $# -gt 0 ]; do
  case $1 in
    --out) needs_directory "$1" "${2-}"; out=$2; shift 2 ;;
    --build) needs_directory "$1" "${2-}"; build=$2; shift 2 ;;
    --rehearse) device=cuda-emulated model=small/tiny steps=3 preset=cpu patience=5; shift ;;
    -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "gpu_check: unknown argument $1, see tools/gpu_check.sh --help" >&2; exit 2 ;;
  esac
done
mkdir -p "$out" || exit 2
out=$(realpath "$out")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# timeout gives a stage a process group of its own: what ends this script has to be passed on, and reaches all of the stage.
running=
trap '[ -z "$running" ] || kill "$running"; echo "gpu_check: stopped" >&2; exit 130' INT TERM HUP
started=$(date +%s)
failed=0
: >"$out/summary.txt"

# stage NAME SECONDS COMMAND...: runs the command for at most so long and remembers how it went; what it prints is kept in $out.
stage() {
  local name=$1 limit=$(($2 * patience)) begin status log
  shift 2
  printf '\n== %s (after %d s, at most %d s)\n' "$name" $(($(date +%s) - started)) "$limit"
  begin=$(date +%s)
  # A function needs a shell of its own to be limited.
  log=$out/${name// /_}.txt
  : >"$log"
  timeout "$limit" bash -c '"$@"' stage "$@" >"$log" 2>&1 &
  running=$!
  tail -n +1 -f -s 0.2 --pid "$running" "$log" &
  # wait ends for a trap at once, which a command in front would hold up.
  wait "$running"
  status=$?
  running=
  wait
  local verdict=ok
  case $status in 0) ;; 77) verdict=skipped ;; 124) verdict=TIME failed=1 ;; *) verdict=FAILED failed=1 ;; esac
  printf '%-8s %-22s %4d s\n' "$verdict" "$name" $(($(date +%s) - begin)) | tee -a "$out/summary.txt"
  [ "$verdict" = ok ] || [ "$verdict" = skipped ]
}

build_all() {
  cmake --preset "$preset" -B "$build" -DOXRSE_TESTS=ON >/dev/null && cmake --build "$build" --target oxrse test_cuda | tail -3
}
# The tests of ops, and no others of the program. Catch takes a ~ in the middle of a name for a letter, unless the names are quoted.
kernel_tests() {
  OXRSE_TEST_DEVICE=$device "$build/tests/test_cuda" '~"emulation*"~"gpu:*"~"training*"~"bench*"~"kernels are named*"~"the table of resources*"'
}
sanitized_tests() {
  command -v compute-sanitizer >/dev/null || { echo "no compute-sanitizer in PATH"; return 77; }
  for tool in memcheck racecheck; do
    OXRSE_TEST_DEVICE=$device compute-sanitizer --tool "$tool" --error-exitcode 1 "$build/tests/test_cuda" "rmsnorm*,layernorm*,cross entropy*" || return 1
  done
}
# Trains the same on the CPU and on the device: the losses must agree as far as bf16 lets them.
train_on() {
  cat README.md docs/*.md >"$work/text.txt"
  "$build/oxrse" train "$work/config.json" --set "run.device=\"$1\"" --set "run.dir=\"$work/$1\"" --resume never | tail -4
}
compare_losses() {
  cat >"$work/config.json" <<JSON
{"run": {"name": "gpu_check"}, "model": "$model",
 "data": {"train": "$work/text.txt", "tokenizer": "bytes", "order": "sequential"},
 "train": {"steps": $steps, "global_batch": 4, "micro_batch": 4, "context": 64, "eval_every": 0},
 "optimizer": {"lr": 3e-4, "warmup_steps": 10, "kind": "adamw"}, "precision": {"compute": "bf16"},
 "checkpoint": {"every": 0, "async": false}, "log": {"every": 50, "tensorboard": false}}
JSON
  train_on cpu && train_on "$device" && python3 tools/compare_losses.py "$work/cpu/metrics.jsonl" "$work/$device/metrics.jsonl" --json "$out/losses.json"
}
bench() {
  local what=$1
  shift
  "$build/oxrse" bench "$what" --device "$device" --json "$out/$what.json" --csv "$out/$what.csv" "$@"
}
bench_cases() {
  local large=()
  [ "$device" = cuda ] && large=(--large --seconds 0.2)
  bench "$@" --dtype bf16 "${large[@]}"
}
# The kernels that lead to two of the engine's: docs/kernels.
bench_ladder() {
  "$build/oxrse" bench kernels --device "$device" --filter ladder --dtype bf16 --seconds 0.2 --json "$out/ladder.json" --csv "$out/ladder.csv"
}
bench_step() {
  [ "$device" = cuda ] || { echo "an emulation has no times"; return 77; }
  bench train --batch 16 --context 1024 --steps 20
}
beside_torch() {
  if [ "$device" != cuda ] || ! python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    echo "python3 has no PyTorch with CUDA here"
    return 77
  fi
  python3 benchmarks/peer_torch.py --oxrse "$build/oxrse" --device cuda --model 124m-long --dtype bf16 --turns 1 --steps 20 \
    --attention "$out/kernels.json"
}
export -f build_all kernel_tests sanitized_tests train_on compare_losses bench bench_cases bench_ladder bench_step beside_torch
export out build device model steps preset work

if stage build 240 build_all; then
  stage "kernel tests" 120 kernel_tests
  stage sanitizer 60 sanitized_tests
  stage losses 150 compare_losses
  stage kernels 60 bench_cases kernels --filter '^(?!.*ladder)'
  stage ladder 30 bench_ladder
  stage products 40 bench_cases gemm
  stage step 60 bench_step
  stage "beside torch" 120 beside_torch
fi
printf '\n== summary (%d s); everything is in %s\n' $(($(date +%s) - started)) "$out"
cat "$out/summary.txt"
exit $failed
