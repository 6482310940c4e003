"""The preset of sanitizers and fuzzers configures: the sources that only it names exist, which the
build of `make test` does not show."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def test_what_fuzzers_are_made_of_exists(tmp_path):
    for tool in ("cmake", "ninja", "clang++"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed (scripts/setup.sh --tests)")
    command = ["cmake", "--preset", "asan", "-S", ROOT, "-B", tmp_path / "build",
               "-D", f"TV_LIB_DIR={tmp_path / 'lib'}"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
