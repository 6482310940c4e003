#!/usr/bin/env bash
# Prints folders with releases of ONNX Runtime that its provider is tested with beside the one in .venv:
# a version, a tab and the folder a line. Makes them where they are not there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for version in 1.23.2 1.24.4; do
  folder=$PWD/.setup/onnxruntime-$version
  if [ ! -e "$folder/made" ]; then
    rm -rf "$folder"
    mkdir -p .setup
    .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --target "$folder" \
      "onnxruntime==$version" >.setup/onnxruntime-versions.log 2>&1 || {
      tail -3 .setup/onnxruntime-versions.log >&2
      echo "onnxruntime $version could not be installed" >&2
      exit 1
    }
    touch "$folder/made"
  fi
  printf '%s\t%s\n' "$version" "$folder"
done
