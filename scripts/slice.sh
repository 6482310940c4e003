#!/usr/bin/env bash
# What continuous integration runs for each commit after `make test`: a part of what `make test-all`
# has besides, another for each commit. What sanitizers and fuzzers see and the wheel come whole, as
# many of them as there is time for, another first for each commit; then slow tests and samples of
# op_db. It ends after SECONDS: what is not done by then is ended, and named. The seed is printed;
# TV_TEST_SEED=… scripts/slice.sh repeats it.
# Searches without an end (random programs, fuzzers, PyTorch's own tests, which are fetched) are not
# in it: what they find is news of older code.
# Usage, after scripts/setup.sh --tests: slice.sh [SECONDS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
total=${1:-2100}
export TV_TEST_SEED=${TV_TEST_SEED:-$((16#$(git rev-parse --short=8 HEAD | cut -c1-8)))}
echo "== Slice of $(git rev-parse --short HEAD): TV_TEST_SEED=$TV_TEST_SEED, $total s"

left() { echo $((total - SECONDS)); }
failed=()
part() {  # part NAME SECONDS COMMAND…: one that fails does not keep others from being seen
  local name=$1 seconds=$2 code=0
  shift 2
  echo "== $name"
  timeout --kill-after=20 "$seconds" "$@" || code=$?
  case $code in
    0) ;;
    124 | 137) echo "Ended by the slice's time, nothing having failed: $name" ;;
    *) failed+=("$name") ;;
  esac
}
shown() {  # as part, but it does not gate: the slow tests have to be green together first
  local before=${#failed[@]}
  part "$@"
  [ ${#failed[@]} = "$before" ] && return
  echo "Failed, and does not gate yet: $1"
  unset 'failed[-1]'
}

whole=("C++ tests and fuzzers under ASan and UBSan|scripts/sanitized.sh memory"
  "Threads under ThreadSanitizer|scripts/sanitized.sh threads"
  "The wheel|.venv/bin/python -m pytest -m slow tests/python/test_wheel.py")
for turn in 0 1 2; do
  IFS='|' read -r name command <<<"${whole[$(((TV_TEST_SEED + turn) % 3))]}"
  if [ "$(left)" -ge 400 ]; then
    # shellcheck disable=SC2086 # words
    part "$name" "$(left)" $command
  else
    echo "== Not in this slice, which has $(left) s left: $name"
  fi
done
if [ "$(left)" -lt 120 ]; then
  echo "== Not in this slice, which has $(left) s left: slow Python tests, samples of op_db"
else
  slow=$(($(left) * 6 / 10))
  shown "Slow Python tests, $slow s of them" $((slow * 4 / 3)) \
    env TV_TEST_SLICE_SECONDS=$slow TORCH_VULKAN_CHECK_OPERATORS=1 \
    .venv/bin/python -m pytest -n auto --maxprocesses=8 --dist load -m slow --durations=10 -k 'not random' --ignore tests/python/test_wheel.py tests

  forms=(plain plain gradients transposed offset expanded channels_last infinite denormal)
  form=${forms[$((TV_TEST_SEED % ${#forms[@]}))]}
  case $form in
    plain) samples=() ;;
    gradients) samples=(--gradients) ;;
    *) samples=(--form "$form" --dtypes float32) ;;
  esac
  results=$(mktemp -d)
  trap 'rm -rf "$results"' EXIT
  shown "Samples of op_db ($form)" "$(left)" \
    .venv/bin/python tests/opinfo/run.py --results "$results/opinfo" --seed "$TV_TEST_SEED" \
    --seconds $(($(left) * 3 / 4)) "${samples[@]}"
fi

[ ${#failed[@]} = 0 ] || { printf 'Failed: %s\n' "${failed[@]}"; exit 1; }
