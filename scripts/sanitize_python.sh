#!/usr/bin/env bash
# The Python bindings and the torch library under ThreadSanitizer; any report fails. The libraries are
# the preset tsan's, in a copy of the package; Python and torch are not built with the sanitizer, whose
# runtime is loaded before them. What runs: a planted race, which has to be reported; for SECONDS
# tests/soak/threads.py; the Python tests of threads.
# Usage, after scripts/setup.sh --tests: sanitize_python.sh [SECONDS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-60}
seed=${TV_TEST_SEED:-$(scripts/turn.sh)}
# Tests would ask a shell, in which the runtime that is loaded before all crashes.
export TV_TEST_TURN=${TV_TEST_TURN:-$(scripts/turn.sh)}
root=$PWD build=$PWD/build-tsan

cmake --preset tsan > /dev/null
cmake --build --preset tsan --target _C torch_vulkan torch_vulkan_script -- --quiet
rm -rf "$build/package"
mkdir "$build/package"
cp -rs "$root/python/." "$build/package"
rm -rf "$build/package/torch_vulkan/lib"
ln -s "$build/lib" "$build/package/torch_vulkan/lib"

compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[^=]*=//p' "$build/CMakeCache.txt")
runtime=$("$compiler" -print-file-name=libtsan.so)
[ -f "$runtime" ] || { echo "$compiler has no shared runtime of ThreadSanitizer: $runtime" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fixed=(setarch -R)  # where the runtime's addresses are free on any kernel
"${fixed[@]}" true 2> /dev/null || fixed=()

export XDG_CACHE_HOME=$work/cache  # so that engines are built

sanitized() {  # sanitized NAME ARGUMENTS…: Python with these; its reports are $work/NAME.*
  local name=$1
  shift
  env LD_PRELOAD="$runtime" PYTHONPATH="$build/package" PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 \
    TSAN_OPTIONS="halt_on_error=0:exitcode=0:second_deadlock_stack=1:history_size=5:log_path=$work/$name:suppressions=$root/scripts/sanitizer/tsan.txt${TSAN_OPTIONS:+:$TSAN_OPTIONS}" \
    "${fixed[@]}" .venv/bin/python "$@"
}
failed=0
part() {  # part NAME ARGUMENTS…: fails where Python does, or the sanitizer reports
  local name=$1
  local before=$failed
  failed=0
  sanitized "$@" || { echo "Failed: $name"; failed=1; }
  if compgen -G "$work/$name.*" > /dev/null; then
    cat "$work/$name".*
    grep -h '^SUMMARY: ' "$work/$name".* | sort | uniq -c
    failed=1
  fi
  # TV_TEST_RECORD: scripts/part.sh
  [ "$failed" = 0 ] || echo "failed $name under ThreadSanitizer" >>"${TV_TEST_RECORD:-/dev/null}"
  echo "ran $name under ThreadSanitizer" >>"${TV_TEST_RECORD:-/dev/null}"
  [ "$failed" != 0 ] || failed=$before
}

"$compiler" -O1 -g1 -fPIC -shared -fsanitize=thread tests/sanitizer/planted_race.cpp -o "$work/race.so"
sanitized planted -c '
import ctypes, sys, threading
import torch_vulkan
assert torch_vulkan._C.__file__.startswith(sys.argv[2]), torch_vulkan._C.__file__
race = ctypes.CDLL(sys.argv[1]).race
threads = [threading.Thread(target=race) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
' "$work/race.so" "$build"
grep -qs 'data race .* in race' "$work"/planted.* ||
  { echo "The planted race was not reported: nothing would be" >&2; exit 1; }

echo "== Eight threads call, refit, load, compile and destroy for $seconds s (seed $seed)"
part stress tests/soak/threads.py --here stress "$seconds" $((seed % 1000))
echo "== Python tests of threads"
tests=(ahead_of_time/test_aot_module.py::test_threads_and_new_weights
  "engines/test_background_tuning.py::test_a_change_of_weights_before_the_swap_is_not_lost[False-change_in_place]"
  engines/test_background_tuning.py::test_engines_are_replaced_while_threads_call_and_refit
  compile/test_full_compilation.py::test_threads_keep_their_own_rules
  "engines/test_memory.py::test_calls_share_what_they_need[in place-threads]"
  weights/test_refit.py::test_calls_while_another_thread_refits_see_one_set_of_weights
  weights/test_refit.py::test_two_refits_at_a_time weights/test_weights.py::test_threads_share_an_engine
  weights/test_weights.py::test_a_change_while_a_set_is_made_is_seen)
part tests -m pytest -q -p no:cacheprovider --disable-warnings "${tests[@]/#/tests/python/}" \
  tests/onnx/test_onnx_fallback.py::test_threads
exit $failed
