"""Jobs, their logs, and their webhooks."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from ..errors import ServiceError
from ..jobs import jobs, webhooks
from ..messages import answers
from ..messages.requests import JobRequest
from ..parts import Parts
from ..storage.tables import ENDED, EventState, State, Task
from . import faults
from .access import Id, JobsLimit, Limit, PartsOf, Submitter, may

router = APIRouter()
_FOLLOW_S = 0.2


@router.post("/v1/jobs", status_code=201, response_model=answers.Job,
             responses={200: {"model": answers.Job, "description": "It was there"}})
def submit(parts: PartsOf, key: Submitter, request: JobRequest, asked: Request):
    """Compiles a model for devices. The same job_id again gives the same job."""
    if request.notify is not None:
        webhooks.check_url(request.notify, parts.sender.policy.allow_private)
    asker = jobs.Asker(key.id, parts.most_waiting, asked.state.trace)
    job, is_new = jobs.submit(parts.database, parts.store, request, asker)
    parts.scheduler.wake.set()
    return faults.answer(job, 201 if is_new else 200)


@router.get("/v1/jobs", response_model=answers.Jobs, dependencies=[may("read")])
def list_jobs(parts: PartsOf, state: State | None = None,
              before: Annotated[int | None, Query(ge=0, lt=2 ** 63)] = None,
              limit: JobsLimit = 100):
    """Jobs, the newest first; before: a job's number, to go on from."""
    return faults.answer({"jobs": jobs.listed(parts.database, state, before, limit)})


@router.get("/v1/jobs/{job_id}", response_model=answers.JobDetails, dependencies=[may("read")])
def details(parts: PartsOf, job_id: Id):
    """A job; waits_for: why no job goes on now."""
    job = jobs.details(parts.database, job_id)
    return faults.answer(job | {"waits_for": "" if job["state"] in ENDED
                                else parts.scheduler.waits_for})


@router.delete("/v1/jobs/{job_id}", response_model=answers.Job, dependencies=[may("submit")])
def stop(parts: PartsOf, job_id: Id):
    """Stops a job; one that has ended stays as it is."""
    job = jobs.stop(parts.database, job_id)
    parts.scheduler.wake.set()
    return faults.answer(job)


@router.get("/v1/jobs/{job_id}/logs", dependencies=[may("read")],
            response_class=StreamingResponse, responses=answers.file("text/plain", "The log"))
async def logs(parts: PartsOf, job_id: Id, follow: bool = False,
               device: Annotated[str | None, Query(max_length=64)] = None):
    """What the tasks printed; follow: until the job has ended."""
    tasks = await asyncio.to_thread(_tasks, parts, job_id, device)
    return StreamingResponse(_log_pieces(parts, tasks, follow),
                             media_type="text/plain; charset=utf-8",
                             headers={"X-Content-Type-Options": "nosniff"})


def _tasks(parts: Parts, job_id: str, device: str | None) -> list[tuple[int, str]]:
    with parts.database.reading() as session:
        job = jobs.found(session, job_id)
        found = session.query(Task).where(Task.job == job.number).order_by(Task.id)
        tasks = [(task.id, f"{task.device}, level {task.level}") for task in found
                 if device in (None, task.device)]
    if not tasks:
        raise ServiceError(404, "not_found", f"the job has no device {device!r}")
    return tasks


async def _log_pieces(parts: Parts, tasks: list[tuple[int, str]], follow: bool):
    """One task's log after another: tasks start in this order."""
    for task, title in tasks:
        if len(tasks) > 1:
            yield f"== {title}\n".encode()
        offset = 0
        while True:
            ended = await asyncio.to_thread(_has_ended, parts, task) if follow else True
            while piece := await asyncio.to_thread(parts.runner.logs, task, offset):
                offset += len(piece)
                yield piece
            if ended:
                break
            await asyncio.sleep(_FOLLOW_S)


def _has_ended(parts: Parts, task: int) -> bool:
    if parts.closing.is_set():
        return True
    with parts.database.reading() as session:
        row = session.get(Task, task)
        return row is None or row.state in ENDED or (row.later and row.state == State.STARTING)


@router.get("/v1/webhooks", response_model=answers.Webhooks, dependencies=[may("read")])
def list_webhooks(parts: PartsOf, state: EventState | None = None, limit: Limit = 100):
    """The events of jobs that ended, the newest first."""
    return faults.answer({"webhooks": webhooks.listed(parts.database, state, limit)})


@router.get("/v1/webhooks/secret", response_model=answers.Secret)
def webhook_secret(parts: PartsOf, key: Submitter):
    """What the events of this key's jobs are signed with."""
    return faults.answer({"secret": webhooks.secret_of(parts.sender.master, key.id)})


@router.post("/v1/webhooks/{event_id}/retry", response_model=answers.Webhook,
             dependencies=[may("submit")])
def retry_webhook(parts: PartsOf, event_id: Id):
    """Sends an event again, a dead one too."""
    return faults.answer(webhooks.retry(parts.database, event_id))
