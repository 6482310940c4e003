"""Runs each task as a process of this machine."""

import json
import os
import signal
import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path

from ..files import bundle
from . import timings
from .runner import Run, Status
from .sandbox import Limits, environment, limited, sandboxed, task_command
from .task_logs import TaskLogs
from .watched import Watched


class LocalRunner:
    """A process for each run, in bubblewrap unless `bwrap` is None.

    Args:
        folder: where runs write: the service's own.
        slots: the most runs at a time that do not tune, and of those that tune on one kind.
        here: `tuned_for` of the devices of this machine.
    """

    def __init__(self, folder: Path, slots: int, limits: Limits, bwrap: str | None,
                 here: Collection[str] = ()):
        self.slots, self._limits, self._bwrap = slots, limits, bwrap
        self._tuners = dict.fromkeys(here, slots)
        self._runs_folder, self._logs = folder / "runs", TaskLogs(folder / "logs")
        self._runs: dict[str, Watched] = {}
        # Runs end with the process that started them, so those found here have.
        remove_tree(self._runs_folder)
        # A folder of mode 0 in one of them stays, and harms nobody: names of runs do not repeat.
        self._runs_folder.mkdir(parents=True, exist_ok=True)

    def tuners(self) -> Mapping[str, int]:
        return self._tuners

    def submit(self, run: Run) -> None:
        folder = self._runs_folder / run.id
        folder.mkdir()
        request = folder / "task.json"
        files = _bundled(run.model)
        model = folder / "model" if files else run.model  # what the task sees
        unpack = (run.model, model) if files else None
        place = model / files[0].name if files else model
        weights = next((str(model / one.name) for one in files or [] if one.role), None)
        request.write_text(json.dumps({**run.request, "model": str(place),
                                       "data": str(place.parent) if files else None,
                                       "files": [one.name for one in (files or [])[1:]
                                                 if not one.role],
                                       "weights": weights, "out": str(folder)}))
        if run.timings is not None:
            (folder / timings.NAME).write_bytes(run.timings)
        command = task_command("build", str(request))
        if self._bwrap:
            command = sandboxed(command, self._bwrap, self._limits, model, folder, unpack)
        else:
            command = limited(command, self._limits, unpack)
        log = self._logs.path(run.task)
        with open(log, "ab") as output:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                env=environment(), cwd=folder, start_new_session=True)
        self._runs[run.id] = Watched(process, self._limits, folder, model, log)

    def status(self, run_id: str) -> Status:
        run = self._runs[run_id]
        code = run.process.poll()
        if code is None:
            return Status(True, run.folder)
        if os.path.exists(run.folder / "result.json"):  # Path.exists raises in a folder of mode 0
            return Status(False, run.folder)
        fault, again = self._fault(run, code)
        return Status(False, run.folder, fault, again)

    def _fault(self, run: Watched, code: int) -> tuple[str, bool]:
        """What to say of a run that left no result, and whether another may end better."""
        if run.ended_because:
            return run.ended_because, False
        signalled = -code if code < 0 else code - 128 if code > 128 else 0  # bwrap's way
        if signalled == signal.SIGXCPU:
            return f"used more than {self._limits.cpu_seconds} s of the CPU", False
        if signalled == signal.SIGXFSZ:
            return f"wrote a file of more than {self._limits.output_bytes} bytes", False
        if signalled:
            return f"the process was ended by signal {signalled}", True
        return f"the process ended with status {code}; its log says more", True

    def cancel(self, run_id: str) -> None:
        if run_id in self._runs:
            self._runs[run_id].end("cancelled")

    def logs(self, task: int, offset: int) -> bytes:
        return self._logs.read(task, offset)

    def forget_log(self, task: int) -> None:
        self._logs.forget(task)

    def forget(self, run_id: str) -> None:
        run = self._runs.pop(run_id)
        remove_tree(run.folder)

    def close(self) -> None:
        """Ends all runs."""
        for run_id, run in [*self._runs.items()]:
            run.end("the service stopped")
            run.process.wait()
            self.forget(run_id)


def remove_tree(folder: Path) -> None:
    """What can be removed of what tasks wrote: shutil's function fails on folders that are deep."""
    subprocess.run(["rm", "-rf", "--", str(folder)], stderr=subprocess.DEVNULL, check=False)


def _bundled(path: Path) -> list[bundle.Entry] | None:
    """A bundle's files; None: the model is one file, or it is bad or gone, which the task finds."""
    try:
        with open(path, "rb") as file:
            return bundle.entries_of(file)
    except (ValueError, FileNotFoundError):
        return None
