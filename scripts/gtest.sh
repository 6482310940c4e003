#!/usr/bin/env bash
# Runs a GoogleTest program in a process for each core, 8 at most, each with a part of the tests.
# Usage: gtest.sh PROGRAM [arguments]
set -uo pipefail
shards=$(nproc)
[ "$shards" -le 8 ] || shards=8  # they share one device
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
pids=()
for ((i = 0; i < shards; i++)); do
  GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i "$@" > "$logs/$i" 2>&1 &
  pids+=($!)
done
failed=0
for ((i = 0; i < shards; i++)); do
  wait "${pids[$i]}" || failed=1
  cat "$logs/$i"
done
exit $failed
