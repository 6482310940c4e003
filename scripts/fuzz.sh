#!/usr/bin/env bash
# Fuzzes the .vke reader and the ONNX importer side by side, or the one that FUZZ names (vke, onnx), with
# ASan and UBSan, in build-asan/. New inputs stay in build-asan/fuzz/; an input that fails is written to
# build-asan/fuzz/findings/.
# Usage: [FUZZ=vke|onnx] fuzz.sh [SECONDS] [arguments of libFuzzer]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-30}
[ $# -gt 0 ] && shift
readers=${FUZZ:-vke onnx}
command -v clang++ >/dev/null || { echo "fuzz.sh needs clang++ (scripts/setup.sh --tests)" >&2; exit 1; }

cmake --preset asan > /dev/null
# shellcheck disable=SC2086 # one word a reader
cmake --build --preset asan --target $(printf 'fuzz_%s ' $readers) -- --quiet
export ASAN_OPTIONS="detect_leaks=1:detect_stack_use_after_return=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
export UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}"
running=()
for reader in $readers; do
  corpus=corpus
  [ "$reader" = vke ] || corpus=corpus_$reader
  mkdir -p "build-asan/fuzz/$corpus" build-asan/fuzz/findings
  "build-asan/tests/fuzz/fuzz_$reader" -max_total_time="$seconds" -max_len=65536 -timeout=20 \
    -rss_limit_mb=2048 -artifact_prefix=build-asan/fuzz/findings/ -verbosity=0 -print_final_stats=1 "$@" \
    "build-asan/fuzz/$corpus" "tests/fuzz/$corpus" &
  running+=($!)
done
failed=0
for process in "${running[@]}"; do wait "$process" || failed=1; done
exit $failed
