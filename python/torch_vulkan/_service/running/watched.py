"""A task's process, ended where it uses more than its limits. Some of them are the process's own
(launch.py); the others are looked at here, some times a second."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

from . import task_logs, usage
from .sandbox import Limits

_INTERVAL_S = 0.1
_MOST_FILES = 256  # that a task may make


class Watched(threading.Thread):
    """Watches until the process ends.

    Args:
        process: the first of a session of its own.
        folder: what the task writes to.
        model: its model, which may be in the folder and is not counted.
        log: what it prints.

    Attributes:
        ended_because: what it used more of than it may, or what `end` was told.
    """

    def __init__(self, process: subprocess.Popen, limits: Limits, folder: Path, model: Path,
                 log: Path | None = None):
        super().__init__(name="watched", daemon=True)
        self.process, self.folder, self.log, self.ended_because = process, folder, log, ""
        self._limits, self._model, self._began = limits, model, time.monotonic()
        self.start()

    def run(self) -> None:
        while True:
            try:
                self.process.wait(_INTERVAL_S)
                return
            except subprocess.TimeoutExpired:
                if why := self._exceeded():
                    self.end(why)

    def end(self, why: str) -> None:
        """Ends all of its processes."""
        if self.process.poll() is None:
            self.ended_because = self.ended_because or why
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def _exceeded(self) -> str:
        limits = self._limits
        if time.monotonic() - self._began > limits.seconds:
            return f"took longer than {limits.seconds} s"
        if self.log and _size(self.log) > task_logs.LONGEST:
            return f"wrote a log of more than {task_logs.LONGEST >> 20} MiB"
        if usage.memory_bytes(self.process.pid) > limits.memory_bytes:
            return f"used more than {limits.memory_bytes} bytes of memory"
        written, files = usage.disk(self.folder, self._model, _MOST_FILES)
        if files > _MOST_FILES:
            return f"made more than {_MOST_FILES} files"
        if written > limits.folder_bytes:
            return f"wrote more than {limits.folder_bytes} bytes"
        return ""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # it was removed
        return 0
