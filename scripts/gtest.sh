#!/usr/bin/env bash
# Runs a GoogleTest program in a process for each core, 8 at most. Each takes part after part of the
# tests, so that no core waits for another's long ones. What fails is printed when its part ends, or
# when this script is ended, and listed again last; TV_TEST_RECORD (scripts/part.sh) gets it too.
# What tests take turns in goes by TV_TEST_SEED, the next number for each commit.
# Usage: gtest.sh PROGRAM [arguments]
set -uo pipefail
export TV_TEST_SEED=${TV_TEST_SEED:-$("$(dirname "${BASH_SOURCE[0]}")/turn.sh")}
echo "TV_TEST_SEED=$TV_TEST_SEED"
processes=$(nproc)
[ "$processes" -le 8 ] || processes=8  # they share one device
export GTEST_TOTAL_SHARDS=$((processes * 6))
export TV_TEST_RECORD=${TV_TEST_RECORD:-/dev/null}
logs=$(mktemp -d)
export logs

shard() {  # shard NUMBER PROGRAM [arguments]
  local log=$logs/$1 name=${2##*/} code=0
  GTEST_SHARD_INDEX=$1 "${@:2}" >"$log" 2>&1 || code=$?
  {
    flock 9  # one log at a time
    cat "$log"
    [ "$code" = 0 ] || echo "Part $1 of $name failed: exit status $code"
  } 9>"$logs.lock"
  mv "$log" "$log.done"
  ! grep -q '^\[==========\] [1-9][0-9]* tests\? .* ran' "$log.done" || echo "ran $name, part $1" >>"$TV_TEST_RECORD"
  [ "$code" = 0 ] || echo "failed $name, part $1: exit status $code" >>"$TV_TEST_RECORD"
  return "$code"
}
export -f shard

failures='^\[  FAILED  \] [^ ]+\.|Sanitizer: '
ended() {  # parts that run yet when this script is ended may have failed already
  local log
  for log in "$logs"/*; do
    case $log in *.done | *'*') continue ;; esac
    grep -qE "$failures" "$log" || continue
    echo "Failed before part ${log##*/} was ended:"
    cat "$log"
    echo "failed part ${log##*/}, which was ended: $(grep -hEm1 "$failures" "$log")" >>"$TV_TEST_RECORD"
  done
  rm -rf "$logs" "$logs.lock"
}
trap ended EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

seq 0 $((GTEST_TOTAL_SHARDS - 1)) |
  xargs -P "$processes" -I @PART@ bash -c 'shard "$@"' _ @PART@ "$@"
failed=$?
[ "$failed" = 0 ] || grep -hE "$failures" "$logs"/*.done | sort -u
exit $failed
