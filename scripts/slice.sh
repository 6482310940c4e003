#!/usr/bin/env bash
# What continuous integration runs for each commit after `make test`: what sanitizers and fuzzers see
# and the wheel, whole, then a part of what `make test-all` has besides, another for each commit. It
# takes SECONDS, and what the last case of a part takes. The seed is printed; TV_TEST_SEED=…
# scripts/slice.sh repeats it.
# Searches without an end (random programs, fuzzers, PyTorch's own tests, which are fetched) are not
# in it: what they find is news of older code.
# Usage, after scripts/setup.sh --tests: slice.sh [SECONDS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
total=${1:-2100}
export TV_TEST_SEED=${TV_TEST_SEED:-$((16#$(git rev-parse --short=8 HEAD | cut -c1-8)))}
echo "== Slice of $(git rev-parse --short HEAD): TV_TEST_SEED=$TV_TEST_SEED, $total s"

share() {  # share PERCENT: of the time that is left once the whole parts are done
  local left=$((total - whole))
  [ "$left" -ge 120 ] || left=120
  echo $((left * $1 / 100))
}
failed=()
part() {  # part NAME COMMAND…: one that fails does not keep others from being seen
  local name=$1
  shift
  echo "== $name"
  "$@" || failed+=("$name")
}
shown() {  # as part, but it does not gate: the slow tests have to be green together first
  local name=$1
  shift
  echo "== $name"
  "$@" || echo "Failed, and does not gate yet: $name"
}

part "Sanitizers and fuzzers" scripts/sanitized.sh
part "The wheel" .venv/bin/python -m pytest -m slow tests/python/test_wheel.py
whole=$SECONDS

shown "Slow Python tests, $(share 70) s of them" \
  env TV_TEST_SLICE_SECONDS="$(share 70)" .venv/bin/python -m pytest -n auto --maxprocesses=8 --dist load \
  -m slow --durations=10 -k 'not random' --ignore tests/python/test_wheel.py tests

forms=(plain plain gradients transposed offset expanded channels_last infinite denormal)
form=${forms[$((TV_TEST_SEED % ${#forms[@]}))]}
case $form in
  plain) samples=() ;;
  gradients) samples=(--gradients) ;;
  *) samples=(--form "$form" --dtypes float32) ;;
esac
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
shown "Samples of op_db ($form), $(share 30) s of them" \
  .venv/bin/python tests/opinfo/run.py --results "$results/opinfo" --seed "$TV_TEST_SEED" \
  --seconds "$(share 30)" "${samples[@]}"

[ ${#failed[@]} = 0 ] || { printf 'Failed: %s\n' "${failed[@]}"; exit 1; }
