"""Where tasks run: one interface, whatever is behind it. Third parties' runners have these methods.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Run:
    """One attempt at a task.

    Attributes:
        id: unique; a second attempt at the same task has another one.
        task: the task's number, under which its log is kept.
        model: the ONNX file, which the run only reads.
        request: what to build (task.py).
    """

    id: str
    task: int
    model: Path
    request: dict = field(compare=False, hash=False)


@dataclass(frozen=True)
class Status:
    """How a run is.

    Attributes:
        running: it has not ended.
        folder: what it wrote, result.json last.
        fault: why there may be no result, for people; "": it ended as it should.
        again: another attempt may end better.
    """

    running: bool
    folder: Path
    fault: str = ""
    again: bool = False


class Runner(Protocol):
    """Methods are called from one thread, but for those about logs. A run is lost with its runner's
    process: whoever submits it submits it again."""

    slots: int

    def submit(self, run: Run) -> None:
        """Starts a run."""

    def status(self, run_id: str) -> Status:
        """Of a run that was submitted here."""

    def cancel(self, run_id: str) -> None:
        """Ends a run; returns at once."""

    def logs(self, task: int, offset: int) -> bytes:
        """What a task's runs printed, from a byte on."""

    def forget_log(self, task: int) -> None:
        """Removes what a task's runs printed."""

    def forget(self, run_id: str) -> None:
        """Removes what an ended run left, but for its log."""
