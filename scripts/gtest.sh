#!/usr/bin/env bash
# Runs a GoogleTest program in a process for each core, 8 at most. Each takes part after part of the
# tests, so that no core waits for another's long ones.
# What tests take turns in goes by TV_TEST_SEED, another for each commit.
# Usage: gtest.sh PROGRAM [arguments]
set -uo pipefail
commit=$(git rev-parse --short=8 HEAD 2>/dev/null | cut -c1-8)
export TV_TEST_SEED=${TV_TEST_SEED:-$((16#${commit:-0}))}
echo "TV_TEST_SEED=$TV_TEST_SEED"
processes=$(nproc)
[ "$processes" -le 8 ] || processes=8  # they share one device
export GTEST_TOTAL_SHARDS=$((processes * 6))
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
export logs
seq 0 $((GTEST_TOTAL_SHARDS - 1)) | xargs -P "$processes" -I @PART@ bash -c \
  'export GTEST_SHARD_INDEX=$1; shift; "$@" > "$logs/$GTEST_SHARD_INDEX" 2>&1' _ @PART@ "$@"
failed=$?
cat "$logs"/*
# Parts end in their order: the names of what failed stand at the end.
[ "$failed" = 0 ] || grep -hE '^\[  FAILED  \] [^ ]+\.|Sanitizer: ' "$logs"/* | sort -u
exit $failed
