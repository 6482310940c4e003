#!/usr/bin/env bash
# What sanitizers see. memory: the C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer,
# and readers of files fuzzed for SECONDS each under both; threads: what threads share under
# ThreadSanitizer, in C++ and called from Python; all: both.
# Usage, after scripts/setup.sh --tests: sanitized.sh [all|memory|threads] [SECONDS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
what=${1:-all} seconds=${2:-10}
case $what in all | memory | threads) ;; *) echo "usage: sanitized.sh [all|memory|threads] [SECONDS]" >&2; exit 2 ;; esac
export LP_NATIVE_VECTOR_WIDTH=${LP_NATIVE_VECTOR_WIDTH:-256}  # scripts/test.sh says why

if [ "$what" != threads ]; then
  echo "== C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer"
  # The validation layer would see again what it saw without them.
  scripts/sanitize.sh asan '--gtest_filter=-RuntimeProcess.EngineTestsGiveNoValidationMessage'

  echo "== Readers of files, fuzzed for $seconds s each"
  scripts/fuzz.sh "$seconds"
fi
if [ "$what" != memory ]; then
  echo "== Threads: runtime, store, cache, tuner under ThreadSanitizer"
  # Every suite that starts threads itself: tests/python/house/test_sanitized.py. Not every example of
  # every operator, which takes half an hour and has one thread.
  scripts/sanitize.sh tsan '--gtest_filter=Runtime*:Store*:Cache*:Engine*:Timing*:Weight*:Submissions*:File*:Compile*:Tuner*:DeviceTuner*:UserCode*:Pipelines*:PipelineCache*:TimedCalls*:Trial*:Guard*:GlslMemory*:CacheDir*:Sha*:-EngineExamples.*:RuntimeProcess.EngineTestsGiveNoValidationMessage'

  echo "== Threads: the Python bindings under ThreadSanitizer"
  scripts/sanitize_python.sh $((seconds > 60 ? seconds : 60))
fi
