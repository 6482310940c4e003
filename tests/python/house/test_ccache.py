"""cmake/ccache.sh: the digest that stands for a precompiled header in ccache's keys."""

import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "cmake" / "ccache.sh"
# Writes the precompiled header and what it depends on, as gcc does.
COMPILER = """#!/bin/sh
printf '%s' anything >h.gch
printf '%s: %s \\\\\n %s\n' h.gch "$PWD/pch.h" "$PWD/{header}" >h.d
"""


def digest(root: Path, text: str, header: str = "part.h") -> str | None:
    """Of a header of a clone at `root`, that includes a file with this text."""
    root.mkdir()
    (root / "pch.h").write_text(f'#include "{root}/part.h"\n')
    (root / "part.h").write_text(text)
    compiler = root / "compiler"
    compiler.write_text(COMPILER.format(header=header))
    compiler.chmod(0o755)
    subprocess.run([SCRIPT, root, "ccache-is-not-asked", compiler, "-MD", "-MF", "h.d",
                    "-o", "h.gch", "-c", "h.cxx"], cwd=root, check=True)
    found = root / "h.gch.sum"
    assert not [*root.glob("h.gch.text"), *root.glob("h.gch.anywhere")]
    return found.read_text() if found.exists() else None


def test_clones_share_it_and_a_change_does_not(tmp_path):
    first = digest(tmp_path / "one", "int a;")
    assert first is not None and digest(tmp_path / "two", "int a;") == first
    assert digest(tmp_path / "three", "int b;") != first


def test_what_cannot_be_read_has_none(tmp_path):
    assert digest(tmp_path / "one", "int a;", header="missing.h") is None
