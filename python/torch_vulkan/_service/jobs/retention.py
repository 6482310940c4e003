"""What is kept, and for how long: old jobs, engines that newer ones replaced, and files of the
store that nothing names."""

import logging
import threading
import time
from dataclasses import asdict, dataclass, field

from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import Session, delete, func, select, update

from ..errors import Away
from ..running.runner import Runner
from ..storage import quotas
from ..storage.database import Database
from ..storage.store import Keeping
from ..storage.tables import ENDED, Artifact, EventState, Job, Task, WebhookEvent
from . import artifacts

_DAY_S = 86400
_AT_A_TIME = 200  # rows while nobody else writes
_NAMED = 20
_FIRST_S = 60
_MOVED_S = 3600
log = logging.getLogger("torch_vulkan.service")


@dataclass(frozen=True)
class Keep:
    """What stays.

    Attributes:
        job_days: jobs that ended later than so many days ago; None: all.
        engines: of each model and device the engines of so many model files, the newest; None: all.
        upload_days: files that nothing names, but whose job may be about to come.
    """

    job_days: float | None = None
    engines: int | None = None
    upload_days: float = 1


@dataclass
class Removed:
    """What a collection removed, or would remove."""

    jobs: int = 0
    artifacts: int = 0
    files: int = 0
    bytes: int = 0
    names: list[str] = field(default_factory=list)  # the first of what was removed


def collect(database: Database, store: Keeping, runner: Runner, keep: Keep, dry_run: bool) -> dict:
    """Removes what is not kept; `dry_run`: only says what it is."""
    removed = Removed()
    with database.reading() as session:
        jobs, engines = _old_jobs(session, keep), _replaced(session, keep)
        named = _named(session, set(jobs), set(engines))
    removed.jobs, removed.artifacts = len(jobs), len(engines)
    removed.names = [f"job {name}" for name in jobs.values()][:_NAMED]
    if not dry_run:
        for numbers in _batches([*jobs]):
            _remove_jobs(database, runner, numbers)
        for ids in _batches([*engines]):
            with database.writing() as session:
                session.exec(delete(Artifact).where(Artifact.id.in_(ids)))
    before = time.time() - keep.upload_days * _DAY_S
    left = [(digest, size) for digest, size, changed in store.files()
            if digest not in named and changed < before]
    for batch in _batches(left, store.batch):
        gone = batch if dry_run else _remove_files(database, store, batch, before)
        removed.files += len(gone)
        removed.bytes += sum(size for _, size in gone)
        removed.names += [digest for digest, _ in gone[:_NAMED - len(removed.names)]]
    return {"dry_run": dry_run} | asdict(removed)


def _batches(things: list, size: int = _AT_A_TIME):
    for i in range(0, len(things), size):
        yield things[i:i + size]


def _old_jobs(session: Session, keep: Keep) -> dict[int, str]:
    """Number → id. One whose webhook has not been sent yet, or that is yet to be tuned, stays."""
    if keep.job_days is None:
        return {}
    waiting = select(WebhookEvent.job).where(WebhookEvent.state == EventState.PENDING)
    return dict(session.execute(select(Job.number, Job.id).where(
        Job.state.in_(ENDED), Job.ended < time.time() - keep.job_days * _DAY_S,
        Job.number.not_in(_tuning()), Job.number.not_in(waiting))).all())


def _tuning():
    """Jobs that have ended, and one of whose engines is tuned now, or when its device comes."""
    return select(Task.job).where(Task.state.not_in(ENDED))


def _replaced(session: Session, keep: Keep) -> list[int]:
    """Engines of model files that newer ones of the same name and device came after."""
    if keep.engines is None:
        return []
    newest: dict[tuple[str, str], list[str]] = {}
    found = []
    for row in session.execute(artifacts.newest_file_first(select(
            Artifact.id, Artifact.model, Artifact.device, Artifact.model_digest))):
        files = newest.setdefault((row.model, row.device), [])
        if row.model_digest not in files:
            files.append(row.model_digest)
        if files.index(row.model_digest) >= keep.engines:
            found.append(row.id)
    return found


def _named(session: Session, jobs: set[int], engines: set[int]) -> set[str]:
    """Digests that the database names: of the models of jobs and of engines that stay. A model file
    stays as long as one of its jobs."""
    kept = {digest for number, digest in session.execute(select(Job.number, Job.model_digest))
            if number not in jobs}
    for row in session.execute(select(Artifact.id, Artifact.engine_digest,
                                      Artifact.manifest_digest)):
        if row.id not in engines:
            kept |= {row.engine_digest, row.manifest_digest}
    return kept


def _remove_jobs(database: Database, runner: Runner, numbers: list[int]) -> None:
    """With their tasks, logs and events; their engines stay."""
    with database.writing() as session:
        numbers = [*session.exec(select(Job.number).where(  # a task may have begun meanwhile
            Job.number.in_(numbers), Job.number.not_in(_tuning())))]
        tasks = [*session.exec(select(Task.id).where(Task.job.in_(numbers)))]
        session.exec(update(Artifact).where(Artifact.task.in_(tasks)).values(task=None))
        session.exec(delete(WebhookEvent).where(WebhookEvent.job.in_(numbers)))
        session.exec(delete(Task).where(Task.id.in_(tasks)))
        session.exec(delete(Job).where(Job.number.in_(numbers)))
    for task in tasks:
        runner.forget_log(task)


def _remove_files(database: Database, store: Keeping, files: list[tuple[str, int]], before: float
                  ) -> list[tuple[str, int]]:
    """Those that were removed. None is named meanwhile: that takes the same lock."""
    digests = [digest for digest, _ in files]
    with database.writing() as session:
        named = set()
        for column in (Job.model_digest, Artifact.engine_digest, Artifact.manifest_digest):
            named |= {*session.exec(select(column).where(column.in_(digests)))}
        gone = []
        try:
            for digest, size in files:
                if digest not in named and store.remove(digest, before):
                    gone.append((digest, size))
        except Away:
            if not gone:
                raise
        quotas.forget(session, [digest for digest, _ in gone])
        return gone


class Collector(threading.Thread):
    """Collects once a day, but not after the clock was set: by a clock that is wrong everything is
    old."""

    def __init__(self, database: Database, store: Keeping, runner: Runner, keep: Keep):
        super().__init__(name="collector", daemon=True)
        self._parts, self._keep = (database, store, runner), keep
        self._stopping, self._clock = threading.Event(), _Clock(database)

    def stop(self) -> None:
        self._stopping.set()
        if self.is_alive():
            self.join(timeout=30)

    def run(self) -> None:
        wait = _FIRST_S
        while not self._stopping.wait(wait):
            wait = _DAY_S
            try:
                if moved := self._clock.moved():
                    log.error("the collector waits for a day: %s", moved)
                else:
                    log.info("collected: %s", collect(*self._parts, self._keep, dry_run=False))
            except (SQLAlchemyError, OSError) as error:
                log.error("the collector waits: %s", error)


class _Clock:
    """Whether the time of day has kept step with the time that passed."""

    def __init__(self, database: Database):
        self._database, self._seen = database, (time.time(), time.monotonic())

    def moved(self) -> str:
        """How the clock was set since the last call; "": it was not."""
        before, self._seen = self._seen, (time.time(), time.monotonic())
        step = self._seen[0] - before[0] - (self._seen[1] - before[1])
        if abs(step) > _MOVED_S:
            return f"the clock was set {'forward' if step > 0 else 'back'} by {abs(step):.0f} s"
        with self._database.reading() as session:
            newest = session.exec(select(func.max(Job.created))).one() or 0
        behind = newest - self._seen[0]
        return (f"the newest job is of {behind:.0f} s later than the clock says it is"
                if behind > _MOVED_S else "")
