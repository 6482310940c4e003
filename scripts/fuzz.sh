#!/usr/bin/env bash
# Fuzzes what reads files, with ASan and UBSan, in build-asan/: .vke files, their kernels, ONNX
# models, graph files, entries of the on-disk store, timings, .npy, .npz and .safetensors files,
# tokenizers; or those that FUZZ names. New inputs stay in build-asan/fuzz/; an input that fails is
# written to build-asan/fuzz/findings/.
# Usage: [FUZZ="vke spirv onnx graph store timings npy npz safetensors tokenizer"]
#        fuzz.sh [SECONDS] [libFuzzer's arguments]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export SECONDS_EACH=${1:-30}
[ $# -gt 0 ] && shift
readers=${FUZZ:-vke spirv onnx graph store timings npy npz safetensors tokenizer}
command -v clang++ >/dev/null || { echo "fuzz.sh needs clang++ (scripts/setup.sh --tests)" >&2; exit 1; }

cmake --preset asan > /dev/null
# shellcheck disable=SC2086 # one word a reader
cmake --build --preset asan --target $(printf 'fuzz_%s ' $readers) -- --quiet
export ASAN_OPTIONS="detect_leaks=1:detect_stack_use_after_return=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
export UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}"
export TORCH_VULKAN_LOG=error  # that a file is damaged is no news here
[ -w /dev/shm ] && export TMPDIR=${TMPDIR:-/dev/shm}  # files that are synced after each input

fuzz() {
  local reader=$1 corpus=corpus code=0
  shift
  [ "$reader" = vke ] || corpus=corpus_$reader
  mkdir -p "build-asan/fuzz/$corpus" build-asan/fuzz/findings
  # Entropic scheduling takes two fifths of the time of small inputs.
  "build-asan/tests/fuzz/fuzz_$reader" -max_total_time="$SECONDS_EACH" -max_len=65536 -timeout=20 \
    -rss_limit_mb=2048 -entropic=0 -artifact_prefix=build-asan/fuzz/findings/ -verbosity=0 \
    -print_final_stats=1 "$@" \
    "build-asan/fuzz/$corpus" "tests/fuzz/$corpus" || code=$?
  [ "$code" = 0 ] || echo "failed fuzz_$reader: exit status $code" >>"${TV_TEST_RECORD:-/dev/null}"
  echo "ran fuzz_$reader" >>"${TV_TEST_RECORD:-/dev/null}"
  return "$code"
}
export -f fuzz
# shellcheck disable=SC2086
printf '%s\n' $readers | xargs -P "$(nproc)" -I @READER@ bash -c 'fuzz "$@"' _ @READER@ "$@"
