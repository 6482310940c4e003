#!/usr/bin/env bash
# Refuses C++ that clang-format would write otherwise, what ruff finds in Python, lines of more than
# 100 columns in GLSL, documents and tables that C++ includes, and algorithms that clang 14, which
# builds for the sanitizers, does not compile. --fix mends the first two.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools=.venv/bin
mapfile -t files < <(git ls-files --cached --others --exclude-standard '*.cpp' '*.h')
if [ "${1:-}" = --fix ]; then
  "$tools/clang-format" -i "${files[@]}"
  "$tools/ruff" check --fix
fi
failed=0
"$tools/clang-format" --dry-run --Werror "${files[@]}" || failed=1
"$tools/ruff" check --quiet || failed=1
# schemas.inc is generated.
mapfile -t kernels < <(git ls-files --cached --others --exclude-standard '*.comp' '*.glsl' '*.inc' |
  grep -v operators/schemas.inc)
! LC_ALL=C.UTF-8 grep -nE '^.{101,}' "${kernels[@]}" || failed=1
# They return a std::ranges::subrange.
! grep -nE 'std::ranges::(unique|remove|remove_if|(stable_)?partition|rotate|search(_n)?|find_end|equal_range)\(' \
  "${files[@]}" || failed=1
# The test needs the built package.
documents=$(PYTHONPATH=python "$tools/python" -m pytest -q -o addopts="" -p no:cacheprovider \
  tests/python/house/test_docs_listings.py -k 100_columns) || {
  grep -E '^E |^FAILED' <<<"$documents"
  failed=1
}
exit $failed
