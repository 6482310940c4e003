#!/usr/bin/env bash
# Prints the folder of ONNX Runtime's headers of API 23, the first with plugin providers; fetches them
# from Debian where they are not there. No package of Debian 12 or of PyPI has them. The package that
# is named here goes when a newer one comes: ONNXRUNTIME_INCLUDE_DIR names headers from elsewhere.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
package=libonnxruntime-dev_1.23.2+dfsg-6.1_amd64.deb  # its headers are those of any machine
digest=4630a94adb36dc056feb124e51c6e952e2cab5188bc093a25bee8a7e1ac5196d

if [ -n "${ONNXRUNTIME_INCLUDE_DIR:-}" ]; then
  echo "$ONNXRUNTIME_INCLUDE_DIR"
  exit
fi
folder=$PWD/.setup/onnxruntime
if ! [ -f "$folder/usr/include/onnxruntime/onnxruntime_ep_c_api.h" ]; then
  mirror=$(scripts/apt_mirror.sh) || {
    echo "ONNX Runtime's headers: ONNXRUNTIME_INCLUDE_DIR names a folder with those of 1.23" >&2
    exit 1
  }
  mkdir -p .setup
  file=$(mktemp .setup/onnxruntime.XXXXXX)
  trap 'rm -f "$file"' EXIT
  # The standard library's, as curl may be missing.
  python3 - "$mirror/pool/main/o/onnxruntime/${package//+/%2B}" "$file" <<'FETCH' >&2
import sys, urllib.request
try:
    with urllib.request.urlopen(sys.argv[1], timeout=60) as answer:
        open(sys.argv[2], "wb").write(answer.read())
except OSError as error:
    sys.exit(f"ONNX Runtime's headers: {sys.argv[1]}: {error}; "
             "ONNXRUNTIME_INCLUDE_DIR names a folder with those of 1.23")
FETCH
  echo "$digest  $file" | sha256sum --check --quiet >&2
  rm -rf "$folder.new" "$folder"
  dpkg-deb -x "$file" "$folder.new"
  mv "$folder.new" "$folder"
fi
echo "$folder/usr/include/onnxruntime"
