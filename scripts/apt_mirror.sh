#!/usr/bin/env bash
# Prints the mirror that apt takes packages from; every one of Debian's has all releases in one pool.
set -euo pipefail
mirror=$(apt-get --print-uris download libc6 2>/dev/null | sed -n "s|^'\(.*\)/pool/.*|\1|p" | head -1)
[ -n "$mirror" ] || { echo "apt names no mirror (apt-get update?)" >&2; exit 1; }
echo "$mirror"
