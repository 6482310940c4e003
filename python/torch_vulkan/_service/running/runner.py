"""Where tasks run: one interface, whatever is behind it. Third parties' runners have these methods.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Run:
    """One attempt at a task.

    Attributes:
        id: unique; a second attempt at the same task has another one.
        task: the task's number, under which its log is kept.
        model: the ONNX file, which the run only reads; `digest`: its place in the store.
        request: what to build (task.py).
        tuned_for: the kind of device to tune on; "": none is needed.
        timings: what the tuner knows of the device (timings.py); None: nothing.
    """

    id: str
    task: int
    model: Path
    digest: str
    request: dict = field(compare=False, hash=False)
    tuned_for: str = ""
    timings: bytes | None = field(default=None, compare=False, hash=False)


@dataclass(frozen=True)
class Status:
    """How a run is.

    Attributes:
        running: it has not ended.
        folder: what it wrote, result.json last; timings.json is what it learnt of the device.
        fault: why there may be no result, for people; "": it ended as it should.
        again: another attempt may end better.
        lost: nobody knows how it ended; another attempt is no second one.
    """

    running: bool
    folder: Path
    fault: str = ""
    again: bool = False
    lost: bool = False


class Runner(Protocol):
    """Methods are called from one thread, but for those about logs and `tuners`. A run is lost with
    its runner's process: whoever submits it submits it again.

    Attributes:
        slots: the most runs at a time that do not tune, which need no device.
    """

    slots: int

    def tuners(self) -> Mapping[str, int]:
        """The devices that engines can be tuned on now: `tuned_for` of each kind, and the most runs
        at a time."""

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
