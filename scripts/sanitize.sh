#!/usr/bin/env bash
# Builds the C++ tests with sanitizers into build-<preset>/ and runs them; any report fails.
# Usage: sanitize.sh [asan|tsan] [arguments of the tests]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=${1:-asan}
[ $# -gt 0 ] && shift
case $preset in asan | tsan) ;; *) echo "usage: sanitize.sh [asan|tsan] [arguments]" >&2; exit 2 ;; esac

cmake --preset "$preset" > /dev/null
cmake --build --preset "$preset" --target tv_tests -- --quiet

suppressions=$PWD/scripts/sanitizer
export ASAN_OPTIONS="detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
export UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}"
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:suppressions=$suppressions/tsan.txt${TSAN_OPTIONS:+:$TSAN_OPTIONS}"
exec scripts/gtest.sh "build-$preset/tests/cpp/tv_tests" --gtest_brief=1 "$@"
