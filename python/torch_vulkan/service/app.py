"""The HTTP interface. Whatever happens, a client gets JSON with a code and a message, and no
traceback."""

import asyncio
import logging
from typing import Annotated

from fastapi import Depends, FastAPI, Path, Query, Request
from fastapi.responses import FileResponse, StreamingResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from . import devices, faults, jobs, keys
from .errors import ServiceError
from .parts import Parts
from .requests import DeviceRequest, Digest, JobRequest, KeyRequest, Name
from .store import Writing
from .tables import ENDED, ApiKey, State, Task

log = logging.getLogger("torch_vulkan.service")
_bearer = HTTPBearer(auto_error=False, description="an API key: tv_<id>_<secret>")
_FOLLOW_S = 0.2
_MOST_LISTED = 1000

Limit = Annotated[int, Query(ge=1, le=_MOST_LISTED)]
JobId = Annotated[str, Path(max_length=64)]


async def _parts(request: Request) -> Parts:  # async: needs no thread
    return request.app.state.parts


PartsOf = Annotated[Parts, Depends(_parts)]


def may(scope: str):
    """A dependency: the key, which must have the scope (admin has all)."""

    def check(parts: PartsOf,
              given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> ApiKey:
        key = keys.find(parts.database, given.credentials) if given else None
        if key is None:
            raise ServiceError(401, "unauthorized", "want an API key that is valid: "
                                                    "Authorization: Bearer tv_…")
        if scope not in key.scopes and "admin" not in key.scopes:
            raise ServiceError(403, "forbidden", f"the key {key.id} lacks the scope {scope!r}")
        return key

    return Depends(check)


def make_app(parts: Parts) -> FastAPI:
    app = FastAPI(title="torch_vulkan compile service", version=parts.version)
    app.state.parts = parts
    faults.install(app, parts.most_upload_bytes)
    for add in (_add_jobs, _add_files, _add_devices, _add_keys):
        add(app)
    return app


def _add_jobs(app: FastAPI) -> None:
    @app.post("/v1/jobs", status_code=201, dependencies=[may("submit")])
    def submit(parts: PartsOf, request: JobRequest):
        """Compiles a model for devices. The same job_id again gives the same job."""
        job, is_new = jobs.submit(parts.database, parts.store, request)
        parts.scheduler.wake.set()
        return faults.answer(job, 201 if is_new else 200)

    @app.get("/v1/jobs", dependencies=[may("read")])
    def list_jobs(parts: PartsOf, state: State | None = None,
                  before: Annotated[int | None, Query(ge=0, lt=2 ** 63)] = None,
                  limit: Limit = 100):
        """Jobs, the newest first; before: a job's number, to go on from."""
        return faults.answer({"jobs": jobs.listed(parts.database, state, before, limit)})

    @app.get("/v1/jobs/{job_id}", dependencies=[may("read")])
    def details(parts: PartsOf, job_id: JobId):
        return faults.answer(jobs.details(parts.database, job_id))

    @app.delete("/v1/jobs/{job_id}", dependencies=[may("submit")])
    def stop(parts: PartsOf, job_id: JobId):
        """Stops a job; one that has ended stays as it is."""
        job = jobs.stop(parts.database, job_id)
        parts.scheduler.wake.set()
        return faults.answer(job)

    @app.get("/v1/jobs/{job_id}/logs", dependencies=[may("read")])
    async def logs(parts: PartsOf, job_id: JobId, follow: bool = False,
                   device: Annotated[str | None, Query(max_length=64)] = None):
        """What the tasks printed; follow: until the job has ended."""
        tasks = await asyncio.to_thread(_tasks, parts, job_id, device)
        return StreamingResponse(_log_pieces(parts, tasks, follow),
                                 media_type="text/plain; charset=utf-8")


def _tasks(parts: Parts, job_id: str, device: str | None) -> list[tuple[int, str]]:
    with parts.database.reading() as session:
        job = jobs.found(session, job_id)
        tasks = [(task.id, task.device) for task in session.query(Task).where(
            Task.job == job.number).order_by(Task.id) if device in (None, task.device)]
    if not tasks:
        raise ServiceError(404, "not_found", f"the job has no device {device!r}")
    return tasks


async def _log_pieces(parts: Parts, tasks: list[tuple[int, str]], follow: bool):
    """One task's log after another: tasks start in this order."""
    for task, device in tasks:
        if len(tasks) > 1:
            yield f"== {device}\n".encode()
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
        return session.get(Task, task).state in ENDED


def _add_files(app: FastAPI) -> None:
    @app.post("/v1/models", status_code=201, dependencies=[may("submit")])
    async def upload(parts: PartsOf, request: Request):
        """Takes the bytes of an ONNX file, with its weights inside."""
        writing = Writing(parts.store)
        try:
            async for piece in request.stream():
                writing.write(piece)
            if not writing.size_bytes:
                raise ServiceError(422, "no_model", "the upload is empty; want an ONNX file")
            digest = await asyncio.to_thread(writing.finish)
        except BaseException:
            writing.abandon()
            raise
        return faults.answer({"digest": digest, "size_bytes": writing.size_bytes}, 201)

    @app.get("/v1/artifacts", dependencies=[may("read")])
    def list_artifacts(parts: PartsOf, model: Annotated[str | None, Query(max_length=300)] = None,
                       runs_on: Annotated[str | None, Query(max_length=20000)] = None,
                       limit: Limit = 100):
        """Engines, the newest first."""
        return faults.answer({"artifacts": jobs.artifacts(parts.database, model, runs_on, limit)})

    @app.get("/v1/artifacts/{digest}", dependencies=[may("read")])
    def artifact(parts: PartsOf, digest: Digest):
        """The bytes of an engine, or of a manifest."""
        if not jobs.is_artifact(parts.database, digest):
            raise ServiceError(404, "not_found", f"there is no artefact {digest}")
        return FileResponse(parts.store.path(digest), media_type="application/octet-stream")


def _add_devices(app: FastAPI) -> None:
    @app.get("/v1/devices", dependencies=[may("read")])
    def list_devices(parts: PartsOf):
        return faults.answer({"devices": devices.listed(parts.database)})

    @app.put("/v1/devices/{name}", dependencies=[may("admin")])
    def register(parts: PartsOf, name: Name, request: DeviceRequest):
        """Adds a kind of device by its profile; engines for it are built, but not tuned."""
        described, is_new = devices.register(parts.database, name, request.profile)
        return faults.answer(described, 201 if is_new else 200)

    @app.get("/v1/health")
    def health(parts: PartsOf):
        alive = parts.scheduler.is_alive()
        return faults.answer({"status": "ok" if alive else "no scheduler",
                              "version": parts.version}, 200 if alive else 503)


def _add_keys(app: FastAPI) -> None:
    @app.get("/v1/keys", dependencies=[may("admin")])
    def list_keys(parts: PartsOf):
        return faults.answer({"keys": [_shown(row) for row in keys.listed(parts.database)]})

    @app.post("/v1/keys", status_code=201, dependencies=[may("admin")])
    def create(parts: PartsOf, request: KeyRequest):
        """Makes a key. This answer alone shows it."""
        row, key = keys.made(request.name, request.scopes)
        keys.add(parts.database, row)
        return faults.answer(_shown(row) | {"key": key}, 201)

    @app.delete("/v1/keys/{key_id}", dependencies=[may("admin")])
    def revoke(parts: PartsOf, key_id: JobId):
        if not keys.revoke(parts.database, key_id):
            raise ServiceError(404, "not_found", f"there is no key {key_id!r}")
        return faults.answer({"id": key_id, "revoked": True})


def _shown(row: ApiKey) -> dict:
    return row.model_dump(exclude={"secret_sha256"})
