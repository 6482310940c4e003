#!/usr/bin/env bash
# Fuzzes the .vke reader, or with FUZZ=onnx the ONNX importer, with ASan and UBSan, in build-fuzz/. New
# inputs stay there; an input that fails is written to build-fuzz/findings/.
# Usage: [FUZZ=onnx] fuzz.sh [SECONDS] [arguments of libFuzzer]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-30}
target=fuzz_${FUZZ:-vke}
corpus=corpus${FUZZ:+_$FUZZ}
[ $# -gt 0 ] && shift
command -v clang++ >/dev/null || { echo "fuzz.sh needs clang++ (scripts/setup.sh --tests)" >&2; exit 1; }

[ -f build-fuzz/build.ninja ] || cmake --preset fuzz > /dev/null
cmake --build --preset fuzz --target "$target" -- --quiet
mkdir -p "build-fuzz/$corpus" build-fuzz/findings
export ASAN_OPTIONS="detect_leaks=1:detect_stack_use_after_return=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
export UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}"
exec "build-fuzz/tests/fuzz/$target" -max_total_time="$seconds" -max_len=65536 -timeout=20 \
  -rss_limit_mb=2048 -artifact_prefix=build-fuzz/findings/ -verbosity=0 -print_final_stats=1 "$@" \
  "build-fuzz/$corpus" "tests/fuzz/$corpus"
