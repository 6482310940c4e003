"""Jobs and their tasks: asked for, stopped, described. The scheduler does the rest."""

import hashlib
import json
import time
import uuid
from dataclasses import dataclass

from sqlmodel import Session, func, select

from ..._base.setting_checks import nearest
from ..errors import ServiceError
from ..messages.answers import JobHead
from ..messages.requests import JobRequest
from ..storage.database import Database
from ..storage.store import Keeping
from ..storage.tables import ENDED, Artifact, Device, Job, State, Task, WebhookEvent
from . import webhooks


@dataclass(frozen=True)
class Asker:
    """An API key, the most tasks that may wait for it, and the trace of its request."""

    key: str
    most_waiting: int
    trace: str = ""


def submit(database: Database, store: Keeping, request: JobRequest, asker: Asker
           ) -> tuple[dict, bool]:
    """The job, and whether it is new: a job id that was used for the same request gives that job.

    Raises:
        ServiceError: the id was used for something else, a device or the model is unknown, or too
            many tasks wait.
    """
    asked = request.model_dump(mode="json", exclude={"job_id"})
    digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
    removals, is_there = store.removals, store.has(request.model_digest)
    with database.writing() as session:
        there = _find(session, request.job_id) if request.job_id else None
        if there:
            if there.request_sha256 != digest:
                raise ServiceError(409, "conflict", f"job id {there.id!r} is that of another "
                                                    "request: choose another one")
            return _described(session, there), False
        devices = _devices(session, request.devices)
        if store.removals != removals:  # others wait meanwhile: only where it may be gone
            is_there = store.has(request.model_digest)
        if not is_there:
            raise ServiceError(422, "no_model", f"the store has no {request.model_digest}: upload "
                                                "the model first (POST /v1/models)")
        _check_room(session, asker, len(devices) * (1 + bool(request.options.optimization_level)))
        job = Job(id=request.job_id or uuid.uuid4().hex, request_sha256=digest,
                  model=request.model, model_digest=request.model_digest,
                  options=asked["options"], key=asker.key, trace=asker.trace,
                  notify=request.notify)
        session.add(job)
        session.flush()
        for device in devices:
            for level in sorted({0, request.options.optimization_level}):
                session.add(Task(job=job.number, device=device.name, level=level))
        session.flush()
        return _described(session, job), True


def _check_room(session: Session, asker: Asker, more: int) -> None:
    waiting = session.exec(select(func.count()).select_from(Task).join(Job).where(
        Task.state == State.STARTING, ~Task.later, Job.key == asker.key)).one()
    if waiting + more > asker.most_waiting:
        raise ServiceError(429, "queue_full", f"{waiting} tasks of this key wait already; want at "
                                              f"most {asker.most_waiting}: try again later")


def _find(session: Session, job_id: str) -> Job | None:
    return session.exec(select(Job).where(Job.id == job_id)).first()


def found(session: Session, job_id: str) -> Job:
    """Raises ServiceError where there is no such job."""
    if job := _find(session, job_id):
        return job
    raise ServiceError(404, "not_found", f"there is no job {job_id[:80]!r}")


def _devices(session: Session, names: list[str]) -> list[Device]:
    rows = {name: session.get(Device, name) for name in names}
    for name, row in rows.items():
        if row is None:
            known = sorted(session.exec(select(Device.name)))
            near = nearest(name, known)
            hint = f"; did you mean {near!r}?" if near else ""
            raise ServiceError(422, "no_device", f"device {name!r} is not known{hint}",
                               [f"known: {', '.join(known) or 'none'}"])
    return [*rows.values()]


def stop(database: Database, job_id: str) -> dict:
    """Asks for the end of a job, and of tuning that comes later; what has ended stays."""
    with database.writing() as session:
        job = found(session, job_id)
        if session.exec(select(Task.id).where(
                Task.job == job.number, Task.state.not_in(ENDED)).limit(1)).first():
            job.stop_asked = True
            update_state(session, job)
        return _described(session, job)


def update_state(session: Session, job: Job) -> None:
    """The state that follows from those of the job's tasks, but for those that may come later."""
    session.flush()
    states = {*session.exec(select(Task.state).where(Task.job == job.number, ~Task.later))}
    if states <= {*ENDED}:
        worst = (State.FAILED, State.STOPPED, State.COMPLETED)
        job.state = next(state for state in worst if state in states)
        if job.ended is None:
            job.ended = time.time()
            webhooks.note_end(session, job)
    elif job.stop_asked:
        job.state = State.STOPPING
    else:
        job.state = State.STARTING if states == {State.STARTING} else State.INPROGRESS
    session.add(job)


def details(database: Database, job_id: str) -> dict:
    with database.reading() as session:
        return _described(session, found(session, job_id))


def listed(database: Database, state: State | None, before: int | None, limit: int) -> list[dict]:
    """The newest first, without their tasks."""
    columns = [Job.__table__.c[name] for name in _HEAD]  # rows are read faster than objects made
    query = select(*columns).order_by(Job.number.desc()).limit(limit)
    if state:
        query = query.where(Job.state == state)
    if before is not None:
        query = query.where(Job.number < before)
    with database.reading() as session:
        rows = session.connection().execute(query)
        return [dict(zip(_HEAD, row, strict=True)) for row in rows]


_HEAD = tuple(JobHead.model_fields)


def _head(job: Job) -> dict:
    return {name: getattr(job, name) for name in _HEAD}


def _described(session: Session, job: Job) -> dict:
    tasks = session.exec(select(Task, Artifact.engine_digest).outerjoin(Artifact).where(
        Task.job == job.number).order_by(Task.id))
    event = session.exec(select(WebhookEvent).where(WebhookEvent.job == job.number)).first()
    return {**_head(job), "options": job.options,
            "webhook": event and webhooks.shown(event), "tasks": [
        {"device": task.device, "state": task.state, "level": task.level, "later": task.later,
         "attempt": task.attempt,
         "reasons": task.reasons, "artifact": digest, "started": task.started, "ended": task.ended}
        for task, digest in tasks]}
