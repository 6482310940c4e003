"""The thread that gives tasks to a runner and keeps what comes back.

A task's state is on disk before its run starts, and its artefact before the task is COMPLETED. So
after the service was killed, whatever has not ended is run again, and a task that was run twice
still has one artefact: the table allows no second.
"""

import json
import logging
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlmodel import select

from . import artifacts, jobs
from .database import Database
from .runner import Run, Runner, Status
from .signing import Signer
from .store import Store, open_plain
from .tables import ENDED, Artifact, Device, Job, State, Task

_MOST_CRASHES = 3
_INTERVAL_S = 0.1
_LONGEST_RESULT = 1 << 20
_TEXTS = {"version": re.compile(r"[ -~]{0,100}"), "builder": re.compile(r"[ -~\n]{0,1000}"),
          "engine_key": re.compile(r"[0-9a-f]{64}")}
log = logging.getLogger("torch_vulkan.service")


class Scheduler(threading.Thread):
    """Args:
        ended: called with how each attempt at a task ended, and its seconds.

    `wake` is set where there is something new to do.
    """

    def __init__(self, database: Database, store: Store, runner: Runner, signer: Signer,
                 ended: Callable[[State, float], None] = lambda _state, _seconds: None):
        super().__init__(name="scheduler", daemon=True)
        self.wake = threading.Event()
        self._database, self._store, self._runner = database, store, runner
        self._signer, self._ended = signer, ended
        self._stopping = False
        self._running: dict[int, tuple[str, Device]] = {}  # task → run, and what it builds for

    def stop(self) -> None:
        """Ends the thread. Runs that have not ended stay INPROGRESS, for the next start."""
        self._stopping = True
        self.wake.set()
        if self.is_alive():
            self.join(timeout=30)

    def run(self) -> None:
        recovered = False
        while not self._stopping:
            try:
                if not recovered:
                    self._recover()
                    recovered = True
                self._stop_jobs()
                self._collect()
                self._start()
            except (SQLAlchemyError, OSError) as error:  # a full disk: it may have room again
                log.error("the scheduler waits: %s", error)
                recovered = False
                time.sleep(1)
            except Exception:  # of one task: the others go on
                log.exception("the scheduler failed and goes on")
                recovered = False
                time.sleep(1)
            self.wake.wait(_INTERVAL_S if self._running else 1.0)
            self.wake.clear()

    def _recover(self) -> None:
        """Tasks that no run works on: theirs ended with the service's last process, or never
        began."""
        with self._database.writing() as session:
            for task in session.exec(select(Task).where(
                    Task.state.in_([State.INPROGRESS, State.STOPPING]))):
                if task.id in self._running:
                    continue
                job = session.get(Job, task.job)
                _end(task, State.STOPPED) if job.stop_asked else _again(task)
                session.add(task)
                jobs.update_state(session, job)
                log.info("task %d was interrupted: %s", task.id, task.state)

    def _stop_jobs(self) -> None:
        with self._database.reading() as session:
            asked = [*session.exec(select(Task.id).join(Job).where(
                Job.stop_asked, Task.state.in_([State.STARTING, State.INPROGRESS])))]
        for task_id in asked:
            with self._database.writing() as session:
                task = session.get(Task, task_id)
                if task.state == State.STARTING:
                    _end(task, State.STOPPED)
                else:
                    task.state = State.STOPPING
                session.add(task)
                jobs.update_state(session, session.get(Job, task.job))
            if task_id in self._running:
                self._runner.cancel(self._running[task_id][0])

    def _start(self) -> None:
        free = self._runner.slots - len(self._running)
        if free <= 0:
            return
        with self._database.reading() as session:
            waiting = [*session.exec(select(Task.id).where(
                Task.state == State.STARTING).order_by(Task.id).limit(free))]
        for task_id in waiting:
            with self._database.writing() as session:
                task = session.get(Task, task_id)
                job = session.get(Job, task.job)
                if job.stop_asked:
                    continue
                device = session.get(Device, task.device)
                task.state, task.attempt = State.INPROGRESS, task.attempt + 1
                task.started = time.time()
                session.add(task)
                jobs.update_state(session, job)
                run = Run(f"{task.id}-{task.attempt}", task.id,
                          self._store.path(job.model_digest),
                          {"device": device.name, "profile": device.profile, "level": task.level,
                           "options": job.options})
            self._runner.submit(run)
            self._running[task_id] = run.id, device

    def _collect(self) -> None:
        for task_id, (run_id, device) in [*self._running.items()]:
            status = self._runner.status(run_id)
            if status.running:
                continue
            try:
                self._finish(task_id, device, status)
            except (OperationalError, OSError):  # a full disk: once more, when there is room
                raise
            except Exception as error:  # of this task: it is not tried for ever
                log.exception("what task %d left cannot be kept", task_id)
                self._give_up(task_id, f"its result cannot be kept: {type(error).__name__}")
            del self._running[task_id]
            self._runner.forget(run_id)

    def _give_up(self, task_id: int, why: str) -> None:
        with self._database.writing() as session:
            task = session.get(Task, task_id)
            if task.state not in ENDED:
                _end(task, State.FAILED, [why])
                session.add(task)
                jobs.update_state(session, session.get(Job, task.job))

    def _finish(self, task_id: int, device: Device, status: Status) -> None:
        result, artifact = self._outcome(status)
        with self._database.writing() as session:
            task = session.get(Task, task_id)
            job, started = session.get(Job, task.job), task.started
            if result["state"] == State.COMPLETED:
                session.add(self._artifact(task, job, device, result, artifact))
                _end(task, State.COMPLETED)
            elif job.stop_asked:
                _end(task, State.STOPPED)
            elif status.again and task.crashes + 1 < _MOST_CRASHES:
                task.crashes += 1
                _again(task)
            else:
                _end(task, State.FAILED, result["reasons"])
            session.add(task)
            jobs.update_state(session, job)
        self._ended(task.state, time.time() - started)
        log.info("task %d of job %s: %s %s", task_id, job.id, task.state, status.fault, extra={
            "fields": {"job": job.id, "task": task_id, "device": task.device, "state": task.state,
                       "attempt": task.attempt}})

    def _outcome(self, status: Status) -> tuple[dict, tuple[str, int] | None]:
        """What a run says of itself, checked: it read a model that may be hostile."""
        if status.fault:
            return {"state": State.FAILED, "reasons": [status.fault]}, None
        try:
            result = _read_result(status.folder / "result.json")
            if result["state"] == State.COMPLETED:
                return result, self._store.take(status.folder / "engine.vke")
            return result, None
        except (ValueError, RecursionError, FileNotFoundError, PermissionError) as error:
            return {"state": State.FAILED, "reasons": [f"the task's result is bad: {error}"]}, None

    def _artifact(self, task: Task, job: Job, device: Device, result: dict,
                  engine: tuple[str, int]) -> Artifact:
        row = Artifact(task=task.id, model=job.model, model_digest=job.model_digest,
                       device=device.name, runs_on=device.runs_on, tuned_for=device.tuned_for,
                       tuned=result["tuned"], level=task.level if result["tuned"] else 0,
                       engine_digest=engine[0], size_bytes=engine[1],
                       engine_key=result["engine_key"], options=job.options, manifest_digest="")
        artifacts.sign(row, {"version": result["version"], "builder": result["builder"]},
                       self._store, self._signer)
        return row


def _end(task: Task, state: State, reasons=()) -> None:
    assert state in ENDED
    task.state, task.reasons, task.ended = state, [*reasons], time.time()


def _again(task: Task) -> None:
    task.state, task.started = State.STARTING, None


def _read_result(path: Path) -> dict:
    """Raises ValueError for anything but a result."""
    with open_plain(path) as file:
        data = file.read(_LONGEST_RESULT + 1)
    if len(data) > _LONGEST_RESULT:
        raise ValueError(f"{path.name} is too long")
    result = json.loads(data)
    kinds = {"state": str, "reasons": list}
    if isinstance(result, dict) and result.get("state") == State.COMPLETED:
        kinds |= {"tuned": bool, **dict.fromkeys(_TEXTS, str)}
    elif not isinstance(result, dict) or result.get("state") != State.FAILED:
        raise ValueError(f"{path.name} names no state")
    for name, kind in kinds.items():
        if not isinstance(result.get(name), kind):
            raise ValueError(f"{path.name}: {name}: want {kind.__name__}")
    for name, wanted in _TEXTS.items():
        if name in kinds and not wanted.fullmatch(result[name]):
            raise ValueError(f"{path.name}: {name}: want {wanted.pattern}")
    if not all(isinstance(line, str) for line in result["reasons"]):
        raise ValueError(f"{path.name}: reasons: want lines")
    return result
