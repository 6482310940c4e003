#!/usr/bin/env bash
# Builds the images of the Dockerfile by buildah, without a hub: the base is made of Debian's packages.
# Usage: images.sh [--archive FOLDER] [runtime] [full]      both where none is named
# --archive: they are written to FOLDER as oci-archives, too. Needs buildah, runc and mmdebstrap.
# Wheels are fetched here, from where pip is told to take them, and given to the build.
set -euo pipefail
archive=
if [ "${1:-}" = --archive ]; then
  [ -n "${2:-}" ] || { echo "images.sh: --archive needs a FOLDER" >&2; exit 2; }
  [ -d "$2" ] || { echo "images.sh: --archive: there is no folder $2" >&2; exit 2; }
  archive=$(realpath "$2")  # the caller's, before this goes elsewhere
  shift 2
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for target in "$@"; do
  case "$target" in
    runtime | full) ;;
    *) echo "images.sh: got $target, want runtime or full" >&2; exit 2 ;;
  esac
done
[ $# -gt 0 ] || set -- runtime full
for tool in buildah runc mmdebstrap; do
  command -v $tool >/dev/null || { echo "$tool is missing: apt-get install buildah runc mmdebstrap" >&2; exit 1; }
done

# Without systemd and with few capabilities, as in CI: runc takes any kind of cgroups.
export BUILDAH_ISOLATION=${BUILDAH_ISOLATION:-oci} BUILDAH_RUNTIME=${BUILDAH_RUNTIME:-runc}
# The same date in every build, so that equal files make equal layers.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
policy=$(mktemp -d)
trap 'rm -rf "$policy"' EXIT
echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$policy/policy.json"
flags=(--signature-policy "$policy/policy.json")

base=localhost/torch_vulkan-base
if ! buildah inspect "$base" >/dev/null 2>&1; then
  echo "== A base of Debian's packages"
  # Without what Debian's slim images leave out, of packages that are installed later, too.
  left_out=(--dpkgopt='path-include=/usr/share/doc/*/copyright')
  for folder in doc info lintian locale man; do
    left_out=(--dpkgopt="path-exclude=/usr/share/$folder/*" "${left_out[@]}")
  done
  mmdebstrap --quiet --variant=minbase "${left_out[@]}" bookworm "$policy/base.tar"
  made=$(buildah from "${flags[@]}" scratch)
  buildah add -q "$made" "$policy/base.tar" / >/dev/null
  buildah commit -q --rm --timestamp "$SOURCE_DATE_EPOCH" "${flags[@]}" "$made" "$base" >/dev/null
fi

version=$(sed -n 's/^project(.* VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
options=(--layers --format docker --label "org.opencontainers.image.version=$version" --network host --timestamp "$SOURCE_DATE_EPOCH"
  --build-arg BASE="$base" --build-arg SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" "${flags[@]}"
  --ulimit nofile=1024:1024)
ccache_dir=$(ccache --get-config cache_dir 2>/dev/null || true)
[ ! -d "$ccache_dir" ] || options+=(--volume "$ccache_dir:/ccache")

wheels=$PWD/.setup/image-wheels
mkdir -p "$wheels"
python=.venv/bin/python
[ -x $python ] || python=python3
wanted=($(grep -o 'onnx==[0-9.]*' setup.cfg))
case " $* " in *" full "*) wanted+=("$(grep -o -m1 'torch==[0-9.]*' Dockerfile)" numpy pybind11 "setuptools>=68" wheel
  onnxruntime pydantic pyyaml) ;; esac
$python -m pip download -q --disable-pip-version-check --only-binary=:all: --python-version 3.11 -d "$wheels" \
  "${wanted[@]}"
options+=(--volume "$wheels:/wheels:ro" --build-arg PIP_FIND_LINKS=/wheels --build-arg PIP_NO_INDEX=1)

for target in "$@"; do
  echo "== torch_vulkan:$target"
  buildah build "${options[@]}" --target "$target" -t "localhost/torch_vulkan:$target" .
  [ -z "$archive" ] ||
    buildah push -q "${flags[@]}" "localhost/torch_vulkan:$target" "oci-archive:$archive/$target.tar"
done
