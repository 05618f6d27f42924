#!/usr/bin/env bash
# Compiles every kernel with nvcc and prints what each needs of a GPU: registers, bytes of stack and of spilled registers.
#
#   tools/cuda_resources.sh [--check] [--arch sm_80,sm_90a,sm_100] [--out DIR] [FILE.cu...]
#
# --check compares with cuda/resources.txt instead of printing, and fails where they differ; it needs the nvcc that the table names. A file that takes more
# than 30 s of processor time for one GPU is named on stderr. --out keeps the objects and logs.
set -euo pipefail
cd "$(dirname "$0")/.."
architectures=sm_80,sm_90a,sm_100
out= check=
needs_value() { [ -n "$2" ] || { echo "cuda_resources: $1 needs a value" >&2; exit 2; }; }
while [ $# -gt 0 ]; do
  case $1 in
    --arch) needs_value "$1" "${2-}"; architectures=$2; shift 2 ;;
    --check) check=1; shift ;;
    --out) needs_value "$1" "${2-}"; out=$2; shift 2 ;;
    -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "cuda_resources: unknown option $1, see tools/cuda_resources.sh --help" >&2; exit 2 ;;
    *) break ;;
  esac
done
nvcc=$(command -v nvcc || ls "${CUDA_PATH:-/usr/local/cuda}/bin/nvcc" 2>/dev/null) || {
  echo "cuda_resources: no nvcc in PATH, CUDA_PATH or /usr/local/cuda" >&2
  [ -n "$check" ] && exit 77
  exit 2
}
if [ $# -gt 0 ]; then files=("$@"); else files=(cuda/kernels/*.cu cuda/kernels/sm_*/*.cu cuda/ladder/*.cu); fi
if [ -z "$out" ]; then
  out=$(mktemp -d)
  trap 'rm -rf "$out"' EXIT
fi
mkdir -p "$out"
export nvcc out
version="nvcc $("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')"
if [ -n "$check" ] && ! head -1 cuda/resources.txt | grep -q "^$version,"; then
  echo "cuda_resources: this is $version; cuda/resources.txt is of another: $(head -1 cuda/resources.txt)" >&2
  exit 77  # to ctest: skipped
fi

# Processor seconds of the children so far: a busy machine does not make a file slow.
children_seconds() { awk -v ticks="$(getconf CLK_TCK)" '{ print int(($16 + $17) / ticks) }' /proc/$$/stat; }
# One file for one GPU: a log and, next to it, how it went.
compile() {
  local arch=${1%% *} file=${1#* } name before after seconds
  name=$(basename "$file" .cu).$arch
  before=$(children_seconds)
  if ! "$nvcc" -std=c++20 -O3 --expt-relaxed-constexpr -DFMT_USE_CONSTEXPR=1 -I. -gencode "arch=compute_${arch#sm_},code=$arch" -Xptxas -v -c "$file" -o "$out/$name.o" \
    >"$out/$name.log" 2>&1; then
    grep -E 'error|fatal' "$out/$name.log" >&2 || cat "$out/$name.log" >&2
    echo "cuda_resources: $file does not compile for $arch" >&2
    return 255  # xargs stops
  fi
  after=$(children_seconds)
  seconds=$((after - before))
  [ "$seconds" -le 30 ] || echo "cuda_resources: $file takes $seconds s of processor time for $arch: more than 30" >&2
}
export -f compile children_seconds
# Kernels in a folder named after a GPU are for that one alone.
is_for() { [[ $2 != */sm_*/* || $2 == */$1/* ]]; }
for file in "${files[@]}"; do
  for arch in ${architectures//,/ }; do
    if is_for "$arch" "$file"; then printf '%s %s\0' "$arch" "$file"; fi
  done
done | xargs -0 -r -n 1 -P "$(nproc)" bash -c 'compile "$1"' _

# Rows of the table: ptxas names a kernel, then its stack and spills, then its registers.
rows() {
  local arch file
  for arch in ${architectures//,/ }; do
    for file in "${files[@]}"; do
      is_for "$arch" "$file" || continue
      name=$(basename "$file" .cu)
      awk -v arch="$arch" -v file="$name" '
        /Compiling entry function/ { kernel = $0; sub(/.*entry function \047/, "", kernel); sub(/\047.*/, "", kernel) }
        /bytes stack frame/ { stack = $1; stores = $5; loads = $9 }
        /Used [0-9]+ registers/ {
          for (i = 1; i < NF; ++i) if ($i == "Used") registers = $(i + 1)
          if (kernel != "") printf "%-8s %5d %5d %6d %6d  %s %s\n", arch, registers, stack, stores, loads, file, kernel
          kernel = ""
        }' "$out/$name.$arch.log" | c++filt | sed -E 's/oxrse::(cuda::)?|\(anonymous namespace\)::|void //g; s/\(.*$//' | sort -k6
    done
  done
}
if [ -n "$check" ]; then
  rows | sort >"$out/now"
  for arch in ${architectures//,/ }; do
    for file in "${files[@]}"; do grep "^$arch .*  $(basename "$file" .cu) " cuda/resources.txt || true; done
  done | sort >"$out/then"
  diff "$out/then" "$out/now" || { echo "cuda_resources: other than cuda/resources.txt (<); a new spill is slow: look before changing the table" >&2; exit 1; }
  echo "cuda_resources: $(wc -l <"$out/now") kernels as in cuda/resources.txt"
else
  printf '%s, bytes of stack and of spilled registers a thread (tools/cuda_resources.sh)\n' "$version"
  printf '%-8s %5s %5s %6s %6s  %s\n' gpu regs stack stores loads kernel
  rows
fi
