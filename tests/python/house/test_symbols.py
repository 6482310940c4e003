"""What the libraries show to the rest of a process is the project's own: cmake/interface.map."""

import re
import subprocess
from pathlib import Path

import pytest

import torch_vulkan as tv

# Mangled: of namespace tv, its functions, data, their guards, tables, type information and thunks.
OURS = re.compile(r"_ZN[KOR]*2tv|_ZG?V?ZNK?2tv|_ZGVN2tv|_ZT[VTCIS]N2tv|"
                  r"_ZT(hn\d+|v0_n\d+)_NK?2tv|tv_|"
                  r"_ZN6google8protobuf5Arena18CreateMaybeMessageIN2tv")
LIBRARIES = sorted((Path(tv.__file__).parent / "lib").glob("*.so"))


def foreign_names(library):
    """What it defines for others and is not the project's: it could take the place of another's."""
    listing = subprocess.run(["nm", "-D", "--defined-only", "--format=posix", library],
                             capture_output=True, text=True, check=True).stdout
    names = [line.split()[0].split("@")[0] for line in listing.splitlines()]
    module = {"PyInit_" + library.name.split(".")[0]}
    assert names
    return [name for name in names if not OURS.match(name) and name not in module]


def test_there_are_libraries():
    assert len(LIBRARIES) == 5, LIBRARIES


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)
def test_nothing_else_is_shown(library):
    assert foreign_names(library) == []
