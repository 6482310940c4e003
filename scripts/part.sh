# To be sourced: `part`, which runs a part of the tests for a given time and tells apart whether it
# failed, was ended by that time, was killed, or ran nothing. What runs tests (gtest.sh, fuzz.sh,
# sanitize_python.sh, pytest, tests/opinfo/run.py) appends lines `ran NAME` and `failed NAME` to the
# file TV_TEST_RECORD, so that a failure counts although its part never came to its end.

failed=()  # names of the parts that failed

# part NAME SECONDS ENOUGH COMMAND…: one that fails does not keep others from being seen. A part that
# is ended before any test ran fails if it had ENOUGH seconds, what it should need from nothing.
part() {
  local name=$1 seconds=$2 enough=$3 code=0 began=$SECONDS why='' record
  shift 3
  record=$(mktemp)
  echo "== $name"
  TV_TEST_RECORD=$record timeout --kill-after=20 "$seconds" "$@" || code=$?
  local took=$((SECONDS - began)) over='' ran
  # A command that is killed before its time, as where memory runs out, has these statuses too.
  case $code in 124 | 137) [ "$took" -lt "$seconds" ] || over=yes ;; esac
  ran=$(grep -c '^ran ' "$record" || true)
  if grep -q '^failed ' "$record"; then
    why="what failed is above"
    sed -n 's/^failed /Failed: /p' "$record"
  elif [ "$code" = 137 ] && [ -z "$over" ]; then
    why="killed after $took of $seconds s, perhaps for want of memory"
  elif [ "$code" != 0 ] && [ -z "$over" ]; then
    why="exit status $code"
  elif [ "$ran" = 0 ] && { [ -z "$over" ] || [ "$took" -ge "$enough" ]; }; then
    why="NO TEST RAN in $took s"
  elif [ "$ran" = 0 ]; then
    echo "NO TEST RAN: $name was ended after $took s; built from nothing it may need $enough"
  elif [ -n "$over" ]; then
    echo "Ended by the slice's time, nothing having failed: $name"
  fi
  rm -f "$record"
  [ -z "$why" ] || { echo "Failed: $name: $why"; failed+=("$name: $why"); }
}
