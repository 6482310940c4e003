#!/usr/bin/env bash
# What sanitizers see: the C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer, readers of
# files fuzzed for SECONDS each under both, and what threads share under ThreadSanitizer.
# Usage, after scripts/setup.sh --tests: sanitized.sh [SECONDS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LP_NATIVE_VECTOR_WIDTH=${LP_NATIVE_VECTOR_WIDTH:-256}  # scripts/test.sh says why

echo "== C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer"
# The validation layer would see again what it saw without them.
scripts/sanitize.sh asan '--gtest_filter=-RuntimeProcess.EngineTestsGiveNoValidationMessage'

echo "== Readers of files, fuzzed for ${1:-10} s each"
scripts/fuzz.sh "${1:-10}"

echo "== Threads: runtime, store, cache, tuner under ThreadSanitizer"
scripts/sanitize.sh tsan '--gtest_filter=Runtime*:Store*:Cache*:Engine*:Timing*:Weight*:Submissions*:File*:Compile*:Tuner*:DeviceTuner*'
