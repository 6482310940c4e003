#!/usr/bin/env bash
# .venv-service: what tests of the compile service on clusters, object stores and PostgreSQL need
# (tests/service/cluster_requirements.txt; 1 GB), and Debian's PostgreSQL server, which it
# installs where apt-get is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=$(readlink -f .venv/bin/python)  # the compiler's module is built for this one
[ -x .venv-service/bin/python ] || "$python" -m venv .venv-service
rm -f .venv-service/complete
.venv-service/bin/python -m pip install -q --disable-pip-version-check \
  -r tests/service/cluster_requirements.txt
touch .venv-service/complete  # tests ask for it
if command -v apt-get >/dev/null && ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
  sudo=""
  [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo apt-get update -qq
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql
fi
