#!/usr/bin/env bash
# What continuous integration runs for each commit after `make test`: a part of what `make test-all`
# adds to it, a different one for each commit. First come the sanitizers with the fuzzers, and the
# wheel, each as a whole, as many as time permits and in turn for each commit; then slow tests and
# samples of op_db. After SECONDS whatever still runs is ended and named. The seed is printed;
# TV_TEST_SEED=… scripts/slice.sh repeats it.
# Open-ended searches (random programs, PyTorch's own tests, which are fetched) are not in it: what
# they find is rarely due to the commit at hand.
# Usage, after scripts/setup.sh --tests: slice.sh [SECONDS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
total=${1:-2100}
export TV_TEST_SEED=${TV_TEST_SEED:-$(scripts/turn.sh)}
echo "== Slice of $(git rev-parse --short HEAD): TV_TEST_SEED=$TV_TEST_SEED, $total s"

left() { echo $((total - SECONDS)); }
. scripts/part.sh

# Name, seconds within which it runs some test even where nothing is built yet, command.
whole=("C++ tests and fuzzers under ASan and UBSan|1800|scripts/sanitized.sh memory"
  "Threads under ThreadSanitizer|1800|scripts/sanitized.sh threads"
  "The wheel|1800|.venv/bin/python -m pytest -m slow tests/python/house/test_wheel.py")
for turn in 0 1 2; do
  IFS='|' read -r name enough command <<<"${whole[$(((TV_TEST_SEED + turn) % 3))]}"
  if [ "$(left)" -ge 400 ]; then
    # shellcheck disable=SC2086 # words
    part "$name" "$(left)" "$enough" $command
  else
    echo "== Not in this slice, which has $(left) s left: $name"
  fi
done
if [ "$(left)" -lt 300 ]; then  # which collecting the tests takes a part of
  echo "== Not in this slice, which has $(left) s left: slow Python tests, samples of op_db"
else
  slow=$(($(left) * 6 / 10))
  part "Slow Python tests, $slow s of them" $((slow * 4 / 3)) $((slow * 4 / 3)) \
    env TV_TEST_SLICE_SECONDS=$slow TORCH_VULKAN_CHECK_OPERATORS=1 \
    .venv/bin/python -m pytest -n auto --maxprocesses=8 --dist load -m slow --durations=10 -k 'not random' --ignore tests/python/house/test_wheel.py tests

  forms=(plain plain gradients transposed offset expanded channels_last infinite denormal)
  form=${forms[$((TV_TEST_SEED % ${#forms[@]}))]}
  case $form in
    plain) samples=() ;;
    gradients) samples=(--gradients) ;;
    *) samples=(--form "$form" --dtypes float32) ;;
  esac
  results=$(mktemp -d)
  trap 'rm -rf "$results"' EXIT
  if [ "$(left)" -ge 80 ]; then
    part "Samples of op_db ($form)" "$(left)" "$(left)" \
      .venv/bin/python tests/opinfo/run.py --results "$results/opinfo" --seed "$TV_TEST_SEED" \
      --seconds $(($(left) * 3 / 4)) "${samples[@]}"
  else
    echo "== Not in this slice, which has $(left) s left: samples of op_db"
  fi
fi

[ ${#failed[@]} = 0 ] || { printf 'Failed: %s\n' "${failed[@]}"; exit 1; }
