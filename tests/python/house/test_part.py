"""scripts/part.sh and gtest.sh: a failure counts whenever its part ends, and that nothing ran is
told."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RAN = 'echo "ran a" >>"$TV_TEST_RECORD"'
FAILED = 'echo "failed b: why" >>"$TV_TEST_RECORD"'


def shell(text: str) -> str:
    done = subprocess.run(["bash", "-c", f"set -euo pipefail; . scripts/part.sh; {text}"], cwd=ROOT,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return done.stdout


def part(command: str, seconds: int = 30, enough: int = 30) -> tuple[str, bool]:
    """(what is printed, whether it failed)."""
    said = shell(f"part one {seconds} {enough} bash -c '{command}'; "
                 'echo "count ${#failed[@]}"')
    head, _, count = said.partition("count ")
    return head, count.strip() == "1"


@pytest.mark.parametrize("command,seconds,enough,fails,message", [
    (RAN, 30, 30, False, ""),
    (f"{RAN}; exit 3", 30, 30, True, "exit status 3"),
    (f"{RAN}; {FAILED}", 30, 30, True, "Failed: b: why"),
    (f"{RAN}; sleep 60", 1, 1, False, "nothing having failed"),
    (f"{RAN}; {FAILED}; sleep 60", 1, 1, True, "Failed: b: why"),
    (f"{RAN}; kill -9 $$", 30, 30, True, "killed after 0 of 30 s"),
    (f"{RAN}; exit 124", 30, 30, True, "exit status 124"),
    ("sleep 60", 1, 1, True, "NO TEST RAN"),
    ("sleep 60", 1, 30, False, "NO TEST RAN"),
    ("true", 30, 30, True, "NO TEST RAN")])
def test_how_a_part_ends(command, seconds, enough, fails, message):
    said, failed = part(command, seconds, enough)
    assert failed == fails and message in said, said
    assert message or said == "== one\n"


# As GoogleTest prints: its first part fails, the second hangs, and others pass.
PROGRAM = """#!/usr/bin/env bash
echo "[==========] Running 1 test"
case $GTEST_SHARD_INDEX in
  0) echo "[  FAILED  ] Suite.First (0 ms)"; code=1 ;;
  1) echo "[  FAILED  ] Suite.Second (0 ms)"; sleep %s; code=1 ;;
  *) code=0 ;;
esac
echo "[==========] 1 test ran."
exit $code
"""


@pytest.mark.parametrize("hangs", [0, 60])
def test_failures_of_a_program(tmp_path, hangs):
    """Of parts that ended, and of one that runs yet when time is over."""
    program = tmp_path / "program"
    program.write_text(PROGRAM % hangs)
    program.chmod(0o755)
    said, failed = part(f"scripts/gtest.sh {program}", 8 if hangs else 60)
    assert failed, said
    assert "Failed: program, part 0: exit status 1" in said, said
    assert "Suite.First" in said and "Suite.Second" in said, said
    if hangs:
        assert "Failed: part 1, which was ended: [  FAILED  ] Suite.Second" in said, said
    else:
        assert "Failed: program, part 1: exit status 1" in said, said


def test_failures_of_pytest(tmp_path):
    """Also where it is ended before it prints them."""
    (tmp_path / "test_x.py").write_text(
        "import time\n\ndef test_wrong():\n    assert 1 == 2\n\n"
        "def test_right():\n    pass\n\ndef test_long():\n    time.sleep(60)\n")
    pytest_here = f"env -u PYTEST_XDIST_WORKER PYTHONPATH=tests {sys.executable} -m pytest"
    said, failed = part(f"{pytest_here} -q -p record -c /dev/null --rootdir {tmp_path} {tmp_path}",
                        8)
    assert failed and "Failed: test_x.py::test_wrong: assert 1 == 2" in said, said
