#!/usr/bin/env bash
# The test suite, after scripts/setup.sh --tests. --all: the slow tests too, and what the sanitizers
# and the fuzzers see, of which continuous integration runs as much as time permits (scripts/slice.sh).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
slow=(-m "not slow")
# lavapipe's vectors have 8 lanes, as on CPUs without AVX-512: its compiler, which takes much of the
# time, is a fifth faster then. In --all they are as wide as the CPU's. (Without LLVM's optimisations,
# GALLIVM_PERF=nopt, small kernels take a third, but the large ones of convolutions overflow the stack
# of Mesa 22.3 and, with a larger one, take many minutes each.)
[ "${1:-}" = --all ] || export LP_NATIVE_VECTOR_WIDTH=${LP_NATIVE_VECTOR_WIDTH:-256}
[ "${1:-}" = --all ] && slow=() && export TV_TEST_ALL=1  # tests/cpp/kit/seed.h

echo "== Format and lint"
scripts/lint.sh

echo "== C++ tests, validation layer on"
TORCH_VULKAN_VALIDATION=1 scripts/gtest.sh build/tests/cpp/tv_tests --gtest_brief=1

# A file stays in one process, which makes its engines and builds once. In their order: xdist would leave
# those with few tests, which take long, to the end.
echo "== Python tests"
TORCH_VULKAN_CHECK_OPERATORS=1 .venv/bin/python -m pytest -n auto --maxprocesses=8 --dist loadfile \
  --no-loadscope-reorder "${slow[@]}" --durations=15 tests

echo "== Accuracy where denormals are 0, as some GPUs have it"
TV_TEST_FLUSH_DENORMALS=1 .venv/bin/python -m pytest -n 2 --dist loadfile tests/accuracy tests/opinfo \
  tests/converters/test_special_values.py "${slow[@]}" -k "accuracy or denormal or special_values"

if [ "${1:-}" = --all ]; then
  env -u TV_TEST_ALL scripts/sanitized.sh all 120

  echo "== What grows, and processes that fork, spawn and end at any moment (make soak: for long)"
  .venv/bin/python tests/soak/soak.py --share 0.02 --seconds 240
  .venv/bin/python tests/soak/threads.py --seconds 60 --processes 6

  echo "== The compile service, from a model to its results"
  .venv/bin/python scripts/service_check.py
  .venv/bin/python benchmarks/service.py

  echo "== Every sample of torch's op_db; a run that is stopped goes on from build/opinfo"
  .venv/bin/python tests/opinfo/run.py --results build/opinfo
  .venv/bin/python tests/opinfo/run.py --results build/opinfo --gradients
  for form in transposed offset expanded channels_last infinite denormal; do
    .venv/bin/python tests/opinfo/run.py --results "build/opinfo_$form" --form "$form" \
      --dtypes float32 --most 1
  done

  echo "== PyTorch's own tests of compiled backends, fetched; a run that is stopped goes on"
  .venv/bin/python tests/torch_suites/run.py --results build/torch_suites --seconds 2400 --workers 2
fi
