#!/usr/bin/env bash
# Refuses C++ that clang-format would write otherwise, and what ruff finds in Python. --fix mends it.
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
exit $failed
