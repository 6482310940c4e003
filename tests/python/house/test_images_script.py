"""scripts/images.sh: what it refuses before it builds anything."""

import re
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "images.sh"


@pytest.mark.parametrize("arguments, message", [
    (["--archive"], "--archive needs a FOLDER"),
    (["--archive", "none"], "--archive: there is no folder none"),
    (["--archive", ".", "runtme"], "got runtme, want runtime or full")])
def test_a_bad_command_line(arguments, message, tmp_path):
    """A folder is the caller's, wherever the script goes."""
    done = subprocess.run([SCRIPT, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and message in done.stderr


def test_the_bake_file_has_the_images_of_the_page():
    """As docs/images.md builds each of them by itself."""
    root = SCRIPT.parents[1]
    bake = (root / "docker-bake.hcl").read_text()
    blocks = dict(re.findall(r'^target "(\w+)" \{\n(.*?)^\}', bake, re.S | re.M))
    made = {(re.search(r'target += "(\w+)"', text)[1], re.search(r'tags += \["(\S+)"\]', text)[1])
            for text in blocks.values()}
    page = (root / "docs" / "images.md").read_text()
    stages = re.findall(r"^FROM \S+ AS (\w+)$", (root / "Dockerfile").read_text(), re.M)
    assert made == {(target or stages[-1], tag) for target, tag in re.findall(
        r"^docker build (?:--target (\w+) )?-t (\S+) \.$", page, re.M)}
    (group,) = re.findall(r'^group "default" \{\n  targets = \[(.*)\]', bake, re.M)
    assert re.findall(r'"(\w+)"', group) == list(blocks)
    (base,) = re.findall(r'variable "BASE" \{\n  default = "(\S+)"', bake)
    assert f"ARG BASE={base}\n" in (root / "Dockerfile").read_text()
