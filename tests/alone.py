"""Tests marked `alone` take most of the machine's memory: while one of them runs, the other
processes of pytest-xdist run none."""

import atexit
import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

import pytest

_FOLDER = "TV_TEST_LOCKS"  # where the processes of this run have their locks
if _FOLDER not in os.environ:
    os.environ[_FOLDER] = tempfile.mkdtemp(prefix="torch_vulkan_locks_")
    atexit.register(shutil.rmtree, os.environ[_FOLDER], ignore_errors=True)


@contextlib.contextmanager
def _locked(file: Path, how: int):
    with open(file, "w") as opened:
        fcntl.flock(opened, how)
        try:
            yield
        finally:  # a process that the test forked, and that lives on, holds the file, too
            fcntl.flock(opened, fcntl.LOCK_UN)


@contextlib.contextmanager
def room_for(alone: bool):
    """Where a test runs: by itself, or beside others that are not `alone`."""
    if not (folder := os.environ[_FOLDER]):
        yield
        return
    door, room = Path(folder) / "door", Path(folder) / "room"
    with contextlib.ExitStack() as inside:
        if alone:  # the door stays closed, so that those inside leave and nobody follows
            inside.enter_context(_locked(door, fcntl.LOCK_EX))
            inside.enter_context(_locked(room, fcntl.LOCK_EX))
        else:
            with _locked(door, fcntl.LOCK_SH):
                inside.enter_context(_locked(room, fcntl.LOCK_SH))
        os.environ[_FOLDER] = ""  # tests that this one starts are part of it
        try:
            yield
        finally:
            os.environ[_FOLDER] = folder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    with room_for(alone=item.get_closest_marker("alone") is not None):
        return (yield)
