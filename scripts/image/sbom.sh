#!/bin/sh
# Prints what an image holds, as SPDX 2.3 (JSON): Debian's packages, those of a Python environment,
# and this project.
# Usage: sbom.sh [PYTHON]
set -eu
version=$(vkexec --version) python=${1:-}
version=${version#vkexec }
created=$(date -u -d "@${SOURCE_DATE_EPOCH:-0}" +%Y-%m-%dT%H:%M:%SZ)
packages() {  # name, version, kind of package URL
  dpkg-query -W -f '${Package} ${Version} deb/debian\n'
  [ -z "$python" ] || "$python" -c 'from importlib.metadata import distributions as all
for d in sorted(all(), key=lambda d: d.name): print(d.name.lower(), d.version, "pypi")'
  echo "torch_vulkan $version generic"
}
packages | awk -v created="$created" -v version="$version" '
  BEGIN {
    printf "{\"spdxVersion\": \"SPDX-2.3\", \"dataLicense\": \"CC0-1.0\", \"SPDXID\": \"SPDXRef-DOCUMENT\",\n"
    printf " \"name\": \"torch_vulkan-%s\",\n", version
    printf " \"documentNamespace\": \"https://spdx.org/spdxdocs/torch_vulkan-%s\",\n", version
    printf " \"creationInfo\": {\"created\": \"%s\", \"creators\": [\"Tool: sbom.sh\"]},\n", created
    printf " \"packages\": ["
  }
  {
    purl = $2; gsub(/[+]/, "%2B", purl); gsub(/:/, "%3A", purl); gsub(/~/, "%7E", purl)
    name = $1; gsub(/[^A-Za-z0-9.-]/, "-", name)
    printf "%s\n  {\"SPDXID\": \"SPDXRef-%d-%s\", \"name\": \"%s\", \"versionInfo\": \"%s\",", (NR > 1 ? "," : ""), NR, name, $1, $2
    printf " \"downloadLocation\": \"NOASSERTION\", \"filesAnalyzed\": false,"
    printf " \"externalRefs\": [{\"referenceCategory\": \"PACKAGE-MANAGER\", \"referenceType\": \"purl\","
    printf " \"referenceLocator\": \"pkg:%s/%s@%s\"}]}", $3, $1, purl
    related = related sprintf("%s\n  {\"spdxElementId\": \"SPDXRef-DOCUMENT\", \"relationshipType\": \"DESCRIBES\", \"relatedSpdxElement\": \"SPDXRef-%d-%s\"}", (NR > 1 ? "," : ""), NR, name)
  }
  END { printf "],\n \"relationships\": [%s]}\n", related }'
