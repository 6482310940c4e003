#!/usr/bin/env bash
# All the set-up: system packages (Debian 12, Ubuntu 24.04), .venv, libraries. What is done is not
# done again. --tests: what the test suite needs besides; --service: what the compile service does;
# --provider: ONNX Runtime's provider; --triton: Triton's backend.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p .setup
tests=no service=no provider=no triton=no
[ "${1:-}" = --tests ] && tests=yes service=yes provider=where-there-are-headers triton=yes
[ "${1:-}" = --provider ] && provider=yes
[ "${1:-}" = --service ] && service=yes
[ "${1:-}" = --triton ] && triton=yes

say() { printf '\033[1m%s\033[0m\n' "$*" >&2; }

# Python 3.11 to 3.13; the system's needs its venv and dev packages.
find_python() {
  local candidate
  for candidate in "${PYTHON3:-}" python3 python3.13 python3.12 python3.11; do
    [ -n "$candidate" ] && command -v "$candidate" >/dev/null || continue
    if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))'; then
      "$candidate" -c 'import sys; print(sys.executable)'
      return
    fi
  done
  echo "Python 3.11 to 3.13 is needed; name one with PYTHON3=/path/to/python3" >&2
  return 1
}

install_packages() {
  local wanted="mesa-vulkan-drivers libvulkan-dev glslang-dev spirv-tools libspdlog-dev
    nlohmann-json3-dev libcli11-dev libyaml-cpp-dev libpcre2-dev libutf8proc-dev libprotobuf-dev protobuf-compiler ninja-build
    zlib1g-dev ccache g++ cmake"
  case $python in /usr/bin/*) wanted+=" python3-venv python3-dev" ;; esac
  [ $tests = yes ] && wanted+=" vulkan-validationlayers libgtest-dev clang libclang-rt-dev"
  # A browser for the service's page, where it is a package (Debian; Ubuntu has a snap).
  [ $tests = yes ] && apt-cache show chromium-headless-shell >/dev/null 2>&1 &&
    wanted+=" chromium-headless-shell"
  [ $service = yes ] && wanted+=" bubblewrap"
  local missing="" package
  for package in $wanted; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "install ok installed" ||
      missing+=" $package"
  done
  [ -z "$missing" ] && return
  if ! command -v apt-get >/dev/null; then
    echo "apt-get is missing; install the equivalents of:$missing" >&2
    return 1
  fi
  say "Installing system packages:$missing"
  local sudo=""
  [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo apt-get update -qq
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing \
    >.setup/apt.log 2>&1 || { tail -20 .setup/apt.log >&2; return 1; }
}

# The stamp of a step is the digest of what it depends on.
digest() { cat "$@" | sha256sum | cut -d' ' -f1; }
done_before() { [ "$(cat ".setup/$1" 2>/dev/null)" = "$2" ]; }

# torch is named in each pip command that could pull another build of it.
torch=${TORCH_SPEC:-torch==2.13.0}

# What an extra of setup.cfg names, in words.
extra() {
  .venv/bin/python - "$1" <<'PYTHON'
import configparser, sys
setup = configparser.ConfigParser()
setup.read("setup.cfg")
lines = setup["options.extras_require"][sys.argv[1]].splitlines()
print(*filter(None, (line.strip() for line in lines)), sep="\n")
PYTHON
}

# What the build needs.
install_python_packages() {
  pip_install pip "PyTorch" "$torch" transformers numpy pybind11 "$(extra test | grep '^onnx==')" \
    "setuptools>=68" wheel
}

# What it does not need: installed beside it.
install_more_packages() {
  [ $service = no ] || pip_install pip-service "the compile service's packages" $(extra service)
  # shellcheck disable=SC2046 # words
  [ $tests = no ] || pip_install pip-tests "the tests' packages" "$torch" $(extra test) $(extra lint)
  # Tests that need a server are skipped where it cannot be had.
  [ $tests = no ] || scripts/triton_fixture.sh >.setup/triton_folder || true
}

pip_install() {  # pip_install STAMP WHAT PACKAGES…
  local stamp=$1 what=$2
  shift 2
  done_before "$stamp" "$*" && return
  say "Installing $what into .venv"
  .venv/bin/python -m pip install -q --disable-pip-version-check "$@"
  echo "$*" >".setup/$stamp"
}

# Tests of the provider are skipped where its headers cannot be had.
configure_provider() {
  local headers
  [ $provider = no ] || grep -q '^TV_ONNXRUNTIME:BOOL=ON' build/CMakeCache.txt && return
  if ! headers=$(scripts/onnxruntime_headers.sh); then
    [ $provider = yes ] && return 1
    return 0
  fi
  cmake -B build -DTV_ONNXRUNTIME=ON -DONNXRUNTIME_INCLUDE_DIR="$headers" >.setup/cmake.log 2>&1 ||
    { tail -30 .setup/cmake.log >&2; return 1; }
}

configure_triton() {
  [ $triton = no ] || grep -q '^TV_TRITON:BOOL=ON' build/CMakeCache.txt && return
  cmake -B build -DTV_TRITON=ON >.setup/cmake.log 2>&1 || { tail -30 .setup/cmake.log >&2; return 1; }
}

build() {
  local stamp
  stamp=$(digest setup.cfg setup.py pyproject.toml <(grep '^project(' CMakeLists.txt))
  if ! [ -f build/build.ninja ]; then
    say "Building torch_vulkan"
    cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DTV_UNITY=ON \
      -DPython_EXECUTABLE="$PWD/.venv/bin/python" -DTV_TESTS=OFF >.setup/cmake.log 2>&1 ||
      { tail -30 .setup/cmake.log >&2; return 1; }
  fi
  if [ $tests = yes ] && ! grep -q '^TV_TESTS:BOOL=ON' build/CMakeCache.txt; then
    cmake -B build -DTV_TESTS=ON >.setup/cmake.log 2>&1 || { tail -30 .setup/cmake.log >&2; return 1; }
  fi
  # In what continuous integration builds, a warning is an error; other compilers know other warnings.
  if [ -n "${TV_WERROR:-}" ] && ! grep -q '^TV_WERROR:BOOL=ON' build/CMakeCache.txt; then
    cmake -B build -DTV_WERROR=ON >.setup/cmake.log 2>&1 || { tail -30 .setup/cmake.log >&2; return 1; }
  fi
  configure_provider
  configure_triton
  install_more_packages &
  local packages=$!
  ninja -C build --quiet || { kill $packages 2>/dev/null; return 1; }
  wait $packages
  if ! done_before editable "$stamp"; then
    # Makes the package importable and the backend known to torch.compile by name.
    .venv/bin/python -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps -e . \
      >.setup/editable.log 2>&1 || { tail -30 .setup/editable.log >&2; return 1; }
    echo "$stamp" >.setup/editable
  fi
}

python=$(find_python)
install_packages
[ -x .venv/bin/python ] || { say "Making .venv"; "$python" -m venv .venv; }
install_python_packages
build
