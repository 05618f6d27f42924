#!/usr/bin/env bash
# From nothing to generated text: installs what is missing, builds, trains a small model for about two minutes and lets it write.
#
#   tools/quickstart.sh [TEXT]      TEXT: any UTF-8 file; without one, the King James Bible (package bible-kjv)
#
# Everything is written to build/ and runs/. Each call trains anew in a directory of its own; a run that was stopped is continued.
set -euo pipefail
case ${1:-} in -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
[ $# -le 1 ] || { echo "quickstart: one text at most, see tools/quickstart.sh --help" >&2; exit 2; }
text=${1:-}
if [ -n "$text" ]; then
  [ -f "$text" ] && [ -r "$text" ] || { echo "quickstart: $text is no readable file" >&2; exit 1; }
  text=$(realpath "$text")
fi
cd "$(dirname "$0")/.."
started=$(date +%s)
step() { printf '\n== %s (after %d s)\n' "$1" $(($(date +%s) - started)); }

step "Set-up"
purposes=(build)
[ -n "$text" ] || purposes+=(quickstart)
tools/setup.sh "${purposes[@]}"

step "Building the command oxrse into build/"
[ -f build/CMakeCache.txt ] || cmake --preset default -DOXRSE_TESTS=OFF >/dev/null
cmake --build build --target oxrse

mkdir -p runs
if [ -z "$text" ]; then
  text=$PWD/runs/bible.txt
  # One verse a line, without its reference.
  [ -s "$text" ] || { bible -f gen1:1-rev22:21 </dev/null | sed 's/^[^ ]* //' >"$text.tmp" && mv "$text.tmp" "$text"; }
  prompt="In the beginning"
else
  prompt=$(head -c 1000 "$text" | tr -s '[:space:]' ' ' | cut -d ' ' -f 1-3)
fi

# The newest run of this text, if it was stopped, else the next number.
name=quickstart-$(basename "$text" | sed 's/\.[^.]*$//; s/[^A-Za-z0-9_.-]/_/g')
number=1
while [ -f "runs/$name-$number/sample.txt" ]; do number=$((number + 1)); done
run=runs/$name-$number

step "Training on $text ($(wc -c <"$text") bytes)"
echo "The run directory is $run. Ctrl-C saves; the same command then continues."
settings=(--set "run.dir=\"$run\"" --set "data.train=\"$text\"")
# A short text is too little to keep a part of it for evaluation.
[ "$(wc -c <"$text")" -ge 50000 ] || settings+=(--set data.validation_fraction=0)
trap 'stopped=1' INT
build/oxrse train model_zoo/recipes/quickstart.json "${settings[@]}"
[ -z "${stopped:-}" ] || exit 130
trap - INT

step "Text by the trained model"
build/oxrse generate "$run" --prompt "$prompt" --tokens 200 --temperature 0.8 --top-k 50 | tee "$run/sample.txt.tmp"
mv "$run/sample.txt.tmp" "$run/sample.txt"

step "Done"
awk -F '[:,}]' '/"loss"/ { for (i = 1; i < NF; i++) if ($i ~ /"loss"/) { last = $(i + 1); if (first == "") first = last } }
  END { printf "The loss fell from %.3f to %.3f nats a token.\n", first, last }' "$run/metrics.jsonl"
cat <<TEXT
  $run/config.json       the effective config
  $run/metrics.jsonl     loss, speed, ... of every step; $run/tensorboard for TensorBoard
  $run/checkpoints       the trained model (HDF5)
  $run/sample.txt        the text above
More text:      build/oxrse generate $run --prompt "$prompt" --tokens 300
Your own text:  tools/quickstart.sh my.txt
TEXT
