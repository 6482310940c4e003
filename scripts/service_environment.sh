#!/usr/bin/env bash
# .venv-service: what tests of the compile service on clusters, object stores and PostgreSQL need
# (tests/service/cluster_requirements.txt; 1 GB), and Debian's PostgreSQL, where apt-get is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=$(readlink -f .venv/bin/python)  # the compiler's module is built for this one
[ -x .venv-service/bin/python ] || "$python" -m venv .venv-service
.venv-service/bin/python -m pip install -q --disable-pip-version-check \
  -r tests/service/cluster_requirements.txt
if command -v apt-get >/dev/null && ! ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; then
  sudo=""
  [ "$(id -u)" = 0 ] || sudo=sudo
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends postgresql
fi
