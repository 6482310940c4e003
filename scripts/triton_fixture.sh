#!/usr/bin/env bash
# Prints the folder of an environment with a Triton server and its client, for tests and `make serve`;
# makes it where it is not there. The server is that of nvidia-pytriton's wheel, Triton 2.51 of 2024: it
# needs no GPU and no container, and has holes that later ones have not, so it listens on 127.0.0.1
# alone. What serves others is a container (docs/triton.md).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$PWD/.setup/triton
stamp="nvidia-pytriton==0.7.0 tritonclient[http,grpc]==2.73.0"
if [ "$(uname -m)" != x86_64 ]; then
  echo "a Triton server: nvidia-pytriton's wheel is for x86_64 alone" >&2
  exit 1
fi
if [ "$(cat "$folder/stamp" 2>/dev/null)" != "$stamp" ]; then
  rm -rf "$folder"
  mkdir -p .setup
  # An environment of its own: the wheel asks for older packages, which the server does not use.
  { "${PYTHON3:-python3}" -m venv "$folder" &&
    "$folder/bin/python" -m pip install -q --disable-pip-version-check "${stamp#* }" &&
    "$folder/bin/python" -m pip install -q --disable-pip-version-check --no-deps "${stamp%% *}"
  } >.setup/triton.log 2>&1 || {
    tail -5 .setup/triton.log >&2
    echo "a Triton server: nvidia-pytriton and tritonclient could not be installed" >&2
    exit 1
  }
  echo "$stamp" >"$folder/stamp"
fi
echo "$folder"
