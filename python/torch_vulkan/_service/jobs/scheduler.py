"""The thread that gives tasks to a runner and keeps what comes back.

A task's state is on disk before its run starts, and its artefact before the task is COMPLETED. So
after the service was killed, whatever has not ended is run again, and a task that was run twice
still has one artefact: the table allows no second.

A task at level 0 needs no device. The tuned one that follows it waits for a runner that has the
device; where none has, its job does not wait for it.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.orm import aliased
from sqlmodel import Session, select

from ..errors import Away, Damaged
from ..files import graph_files
from ..running.runner import Run, Runner, Status
from ..running.timings import Timings
from ..storage import scopes
from ..storage.database import Database
from ..storage.signing import Signer
from ..storage.store import Keeping, Prefetch
from ..storage.tables import ENDED, ApiKey, Artifact, Device, Job, State, Task
from . import artifacts, jobs
from .results import read_result, read_timings

_MOST_CRASHES = 3
_INTERVAL_S = 0.1
_MOST_DEFERRED = 200  # in one transaction
log = logging.getLogger("torch_vulkan.service")


class Scheduler(threading.Thread):
    """Args:
        ended: called with each task and its job after an attempt, and when that began and ended.

    `wake` is set where there is something new to do. `waits_for` says why nothing is done; "": it
    is.
    """

    def __init__(self, database: Database, store: Keeping, runner: Runner, signer: Signer,
                 timings: Timings,
                 ended: Callable[[Task, Job, tuple[float, float]], None] = lambda *_: None):
        super().__init__(name="scheduler", daemon=True)
        self.wake = threading.Event()
        self._database, self._store, self._runner = database, store, runner
        self._signer, self._timings, self._ended = signer, timings, ended
        self._models = Prefetch(store)
        self.waits_for = ""
        self._stopping = False
        self._running: dict[int, _Running] = {}  # by task

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
                self._defer()
                self._start()
                self.waits_for = ""
            except (SQLAlchemyError, OSError) as error:  # a full disk: it may have room again
                self._wait_for(error)
                recovered = False
                time.sleep(1)
            except Exception:  # of one task: the others go on
                log.exception("the scheduler failed and goes on")
                recovered = False
                time.sleep(1)
            self.wake.wait(_INTERVAL_S if self._running else 1.0)
            self.wake.clear()

    def _wait_for(self, error: Exception) -> None:
        said = str(error) if isinstance(error, Away) else (
            "the database" if isinstance(error, SQLAlchemyError) else "the disk")
        if said != self.waits_for:
            log.error("the scheduler waits: %s", error)
        self.waits_for = said

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
                if (task := session.get(Task, task_id)) is None:
                    continue
                if task.state == State.STARTING:
                    _end(task, State.STOPPED)
                elif task.state == State.INPROGRESS:
                    task.state = State.STOPPING
                session.add(task)
                jobs.update_state(session, session.get(Job, task.job))
            if task_id in self._running:
                self._runner.cancel(self._running[task_id].run)

    def _defer(self) -> None:
        """Tasks that would tune on a device that no runner has: their jobs may end."""
        here = [*self._runner.tuners()]
        with self._database.reading() as session:
            found = [*session.exec(select(Task.id).join(Device, Device.name == Task.device).where(
                Task.state == State.STARTING, Task.level > 0, ~Task.later,
                Device.tuned_for.not_in(here)).limit(_MOST_DEFERRED))]
        if not found:
            return
        with self._database.writing() as session:
            for task in session.exec(select(Task).where(Task.id.in_(found))):
                task.later = True
                session.add(task)
                jobs.update_state(session, session.get(Job, task.job))

    def _waiting(self) -> list[tuple[int, str]]:
        """Tasks to start now and the digests of their models, the oldest first: those that need no
        device, and for each kind of device those that tune on it, once the engine before is
        there."""
        running = [*self._running.values()]
        free = self._runner.slots - sum(not one.tunes for one in running)
        with self._database.reading() as session:
            asked = select(Task.id, Job.model_digest).join(Job)
            found = [*session.exec(asked.where(
                Task.state == State.STARTING, ~Task.later, Task.level == 0).order_by(Task.id).limit(
                    max(free, 0)))]
            for tuned_for, most in self._runner.tuners().items():
                free = most - sum(one.tunes and one.device.tuned_for == tuned_for
                                  for one in running)
                found += self._to_tune(session, tuned_for, free)
        return found

    def _to_tune(self, session: Session, tuned_for: str, most: int) -> list[tuple[int, str]]:
        """Tasks that tune on a kind of device. Names are asked for one by one: of each there is an
        index in this order, and millions may wait for other devices."""
        if most <= 0:
            return []
        before, found = aliased(Task), []
        for name in session.exec(select(Device.name).where(Device.tuned_for == tuned_for)):
            found += session.exec(select(Task.later, Task.id, Job.model_digest).join(Job).join(
                before, (before.job == Task.job) & (before.device == Task.device) & (
                    before.level == 0)).where(
                Task.device == name, Task.state == State.STARTING, Task.level > 0,
                before.state == State.COMPLETED).order_by(Task.later, Task.id).limit(most))
        return [(task_id, digest) for _later, task_id, digest in sorted(found)[:most]]

    def _start(self) -> None:
        waiting = self._waiting()
        self._models.keep({digest for _task_id, digest in waiting})
        for task_id, digest in waiting:
            try:
                model = self._models.get(digest)
            except FileNotFoundError as error:
                self._give_up(task_id, f"{error.strerror}: upload the model again")
                continue
            except Damaged as error:
                self._give_up(task_id, f"{error}: upload the model again")
                continue
            if model is None:  # on its way
                continue
            with self._database.writing() as session:
                task = session.get(Task, task_id)
                job = task and session.get(Job, task.job)
                if job is None or job.stop_asked:
                    continue
                device = session.get(Device, task.device)
                guarded = _is_guarded(session, job, model)
                task.state, task.attempt = State.INPROGRESS, task.attempt + 1
                task.started = time.time()
                session.add(task)
                jobs.update_state(session, job)
                run = Run(f"{task.id}-{task.attempt}", task.id, model, digest,
                          {"device": device.name, "profile": device.profile, "level": task.level,
                           "options": job.options, "guarded": guarded},
                          *((device.tuned_for, self._timings.get(device.tuned_for))
                            if task.level else ()))
            self._runner.submit(run)
            self._running[task_id] = _Running(run.id, device, task.level > 0, guarded)

    def _collect(self) -> None:
        for task_id, one in [*self._running.items()]:
            status = self._runner.status(one.run)
            if status.running:
                continue
            try:
                self._finish(task_id, one, status)
            except (OperationalError, OSError):  # a full disk: once more, when there is room
                raise
            except Exception as error:  # of this task: it is not tried for ever
                log.exception("what task %d left cannot be kept", task_id)
                self._give_up(task_id, f"its result cannot be kept: {type(error).__name__}")
            del self._running[task_id]
            self._runner.forget(one.run)

    def _give_up(self, task_id: int, why: str) -> None:
        with self._database.writing() as session:
            task = session.get(Task, task_id)
            if task and task.state not in ENDED:
                _end(task, State.FAILED, [why])
                session.add(task)
                _end_after(session, task)
                jobs.update_state(session, session.get(Job, task.job))

    def _finish(self, task_id: int, one: "_Running", status: Status) -> None:
        result, artifact = self._outcome(status)
        if one.tunes and artifact:
            self._learn(one.device, status.folder)
        row = None
        if artifact:
            with self._database.reading() as session:
                task = session.get(Task, task_id)
                row = self._artifact(task, session.get(Job, task.job), one, result, artifact)
        with self._database.writing() as session:
            task = session.get(Task, task_id)
            job, started = session.get(Job, task.job), task.started
            if row:
                session.add(row)
                _end(task, State.COMPLETED)
            elif job.stop_asked:
                _end(task, State.STOPPED)
            elif status.lost:
                _again(task)
            elif status.again and task.crashes + 1 < _MOST_CRASHES:
                task.crashes += 1
                _again(task)
            else:
                _end(task, State.FAILED, result["reasons"])
            session.add(task)
            _end_after(session, task)
            jobs.update_state(session, job)
        self._ended(task, job, (started, time.time()))
        log.info("task %d of job %s: %s %s", task_id, job.id, task.state, status.fault, extra={
            "fields": {"job": job.id, "task": task_id, "device": task.device, "state": task.state,
                       "attempt": task.attempt}})

    def _learn(self, device: Device, folder: Path) -> None:
        """Keeps what a run measured, for the next."""
        if (more := read_timings(folder)) is None:
            return
        try:
            self._timings.add(device.tuned_for, more)
        except ValueError as error:
            log.warning("timings of %s are not taken: %s", device.name, error)

    def _outcome(self, status: Status) -> tuple[dict, tuple[str, int] | None]:
        """What a run says of itself, checked: it read a model that may be hostile."""
        if status.fault:
            return {"state": State.FAILED, "reasons": [status.fault]}, None
        try:
            result = read_result(status.folder / "result.json")
            if result["state"] == State.COMPLETED:
                return result, self._store.take(status.folder / "engine.vke")
            return result, None
        except (ValueError, RecursionError, FileNotFoundError, PermissionError) as error:
            return {"state": State.FAILED, "reasons": [f"the task's result is bad: {error}"]}, None

    def _artifact(self, task: Task, job: Job, one: "_Running", result: dict,
                  engine: tuple[str, int]) -> Artifact:
        device = one.device
        row = Artifact(task=task.id, model=job.model, model_digest=job.model_digest,
                       device=device.name, runs_on=device.runs_on, tuned_for=device.tuned_for,
                       tuned=result["tuned"], level=task.level if result["tuned"] else 0,
                       engine_digest=engine[0], size_bytes=engine[1],
                       engine_key=result["engine_key"], options=job.options, manifest_digest="")
        artifacts.sign(row, {"version": result["version"], "builder": result["builder"],
                             "check_addresses": one.guarded}, self._store, self._signer)
        return row


@dataclass(frozen=True)
class _Running:
    """A run, what it builds for, and whether it tunes; `guarded`: what it makes may be hostile."""

    run: str
    device: Device
    tunes: bool
    guarded: bool


def _is_guarded(session: Session, job: Job, model: Path) -> bool:
    """Whether the engine is like one of unknown origin: sizes in a graph file are what its author
    says. Whoever may publish could bring any engine."""
    key = session.get(ApiKey, job.key)
    return not (key and scopes.allow(key.scopes, "publish")) and graph_files.is_graph_file(model)


def _end_after(session: Session, task: Task) -> None:
    """Ends what would have tuned an engine that could not be built."""
    if task.level or task.state not in (State.FAILED, State.STOPPED):
        return
    for after in session.exec(select(Task).where(
            Task.job == task.job, Task.device == task.device, Task.level > 0,
            Task.state == State.STARTING)):
        _end(after, State.STOPPED, ["there is no engine to tune"])
        session.add(after)


def _end(task: Task, state: State, reasons=()) -> None:
    assert state in ENDED
    task.state, task.reasons, task.ended = state, [*reasons], time.time()


def _again(task: Task) -> None:
    task.state, task.started = State.STARTING, None
