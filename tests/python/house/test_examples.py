"""The examples run as a reader would run them, and stay short."""

import subprocess
import sys
from pathlib import Path

import pytest

from marks import turns
from workloads.patience import patience

ROOT = Path(__file__).resolve().parents[3]
ARGUMENTS = {"yolov5s.py": ["--size", "64"]}
EXAMPLES = sorted(p.name for p in (ROOT / "examples").glob("*.py"))


@turns(3)
@pytest.mark.parametrize("name", [e for e in EXAMPLES if e != "demo.py"])
def test_example_runs(name):
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / name, *ARGUMENTS.get(name, [])],
        capture_output=True, text=True, timeout=patience(600))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow  # the full ResNet-50; `make demo` runs it too
def test_demo_runs():
    done = subprocess.run([sys.executable, ROOT / "examples" / "demo.py"],
                          capture_output=True, text=True, timeout=patience(900))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "engines     1," in done.stdout and "top-5 agree in 5 of 5" in done.stdout


@pytest.mark.parametrize("name", [e for e in EXAMPLES if e != "yolov5s.py"])
def test_example_is_short(name):
    assert len((ROOT / "examples" / name).read_text().splitlines()) < 100
