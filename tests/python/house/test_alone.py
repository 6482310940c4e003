"""Tests that are marked `alone` (tests/alone.py)."""

import os
import subprocess
import sys
from pathlib import Path

from workloads.patience import patience

PROGRAM = """
import os, time
from pathlib import Path
import pytest

def stay(name):
    start = time.monotonic()
    time.sleep(0.1)
    with open(Path(__file__).parent / "times", "a") as file:
        file.write(f"{name} {start} {time.monotonic()}\\n")

@pytest.mark.alone
@pytest.mark.parametrize("n", range(4))
def test_alone(n): stay("alone")

@pytest.mark.parametrize("n", range(16))
def test_beside(n): stay("beside")
"""


def test_nothing_runs_beside_them(tmp_path):
    (tmp_path / "test_program.py").write_text(PROGRAM)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  alone: \n")
    tests = Path(__file__).parents[2]
    environment = {k: v for k, v in os.environ.items()
                   if not k.startswith(("PYTEST_", "TV_TEST_LOCKS"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "4", "--dist", "load", "--maxschedchunk=1",
         "-p", "alone", "-c", tmp_path / "pytest.ini", "--rootdir", tmp_path, tmp_path],
        env=environment | {"PYTHONPATH": str(tests)}, capture_output=True, text=True,
        timeout=patience(120))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split() for line in (tmp_path / "times").read_text().splitlines()]
    stays = [(name, float(start), float(end)) for name, start, end in rows]
    assert len(stays) == 20
    met = {frozenset((a[0], b[0])) for i, a in enumerate(stays) for b in stays[:i]
           if a[1] < b[2] and b[1] < a[2]}
    assert met == {frozenset(["beside"])}, "alone beside another, or nothing beside anything"
