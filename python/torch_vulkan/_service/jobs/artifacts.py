"""Artefacts: engines in the store with signed manifests, made by tasks or published."""

import asyncio
import contextlib
import json
import re
import subprocess
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from sqlalchemy import Select, and_
from sqlmodel import Session, func, select

from ..errors import ServiceError
from ..messages import answers
from ..messages.requests import PublishRequest
from ..running.sandbox import Limits, environment, limited, sandboxed, task_command
from ..running.watched import Watched
from ..storage.database import Database
from ..storage.signing import Signer
from ..storage.store import Keeping
from ..storage.tables import Artifact, Device

FORMAT = 2
_CHECKED = Limits(memory_bytes=8 << 30, cpu_seconds=60, seconds=90, output_bytes=1 << 20)
_AT_A_TIME = 2  # each may use much memory
_LONGEST_WAIT_S = 30
_LONGEST_TEXT = 20_000
_SHOWN = {*answers.Artifact.model_fields}


def listed(database: Database, model: str | None, runs_on: str | None, limit: int) -> list[dict]:
    """The newest first; of a model those of its newest file first."""
    query = select(Artifact).limit(limit)
    if model is None:
        query = query.order_by(Artifact.id.desc())
    else:
        query = newest_file_first(query, model).where(Artifact.model == model)
    if runs_on is not None:
        query = query.where(Artifact.runs_on == runs_on)
    with database.reading() as session:
        return [row.model_dump(include=_SHOWN) for row in session.exec(query)]


def newest_file_first(query: Select, model: str | None = None) -> Select:
    """Orders artefacts (`model`: where all are of this one). The first engine of a model file on a
    device gives the file's place: one that was tuned late makes no old file the newest."""
    of_file = (Artifact.model, Artifact.device, Artifact.model_digest)
    first = select(*of_file, func.min(Artifact.id).label("first")).group_by(*of_file)
    if model is not None:
        first = first.where(Artifact.model == model)
    first = first.subquery()
    return query.join(first, and_(*(column == first.c[column.key] for column in of_file))).order_by(
        first.c.first.desc(), Artifact.id.desc())


def is_one(database: Database, digest: str) -> bool:
    """Whether it is the digest of an engine or a manifest: models are not given back."""
    query = select(Artifact.id).where(
        (Artifact.engine_digest == digest) | (Artifact.manifest_digest == digest)).limit(1)
    with database.reading() as session:
        return session.exec(query).first() is not None


def sign(row: Artifact, more: dict, store: Keeping, signer: Signer) -> None:
    """Keeps the manifest of a row: what it says, and `more`."""
    row.manifest_digest = ""
    manifest = row.model_dump(include=_SHOWN - {"manifest_digest"}) | {"format": FORMAT} | more
    row.manifest_digest = store.put(signer.envelope(manifest))


class Publisher:
    """Takes engines that were built elsewhere. They are read in a process of their own, in the
    sandbox that tasks have."""

    def __init__(self, database: Database, store: Keeping, signer: Signer, bwrap: str | None):
        self._database, self._store, self._signer = database, store, signer
        self._bwrap = bwrap
        self._turns = asyncio.Semaphore(_AT_A_TIME)

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """For one engine to be read. It is waited for without a thread, which others need.

        Raises:
            ServiceError: there are too many.
        """
        try:
            async with asyncio.timeout(_LONGEST_WAIT_S):
                await self._turns.acquire()
        except TimeoutError:
            raise ServiceError(503, "busy", "too many engines are published at the same time: try "
                                            "again later", headers={"Retry-After": "10"}) from None
        try:
            yield
        finally:
            self._turns.release()

    def publish(self, request: PublishRequest, key: str) -> tuple[dict, bool]:
        """The artefact, and whether it is new. Call it in a `turn`.

        Raises:
            ServiceError: the store has no such engine, or it is none.
        """
        if not self._store.has(request.engine_digest):
            raise ServiceError(422, "no_engine", f"the store has no {request.engine_digest}: "
                                                 "upload the engine first (POST /v1/engines)")
        options = {}  # without the defaults of what was not said
        if request.options is not None:
            options = request.options.model_dump(mode="json", exclude_unset=True)
        removals = self._store.removals
        try:
            path = self._store.fetch(request.engine_digest)
        except FileNotFoundError:
            raise _removed() from None
        said = self._inspected(path)
        with self._database.reading() as session:
            if there := _same(session, request, options):
                return there.model_dump(include=_SHOWN), False
            row = Artifact(model=request.model, model_digest=request.model_digest,
                           device=_device(session, said), runs_on=said["runs_on"],
                           tuned_for=said["tuned_for"], tuned=request.level > 0,
                           level=request.level, engine_digest=request.engine_digest,
                           engine_key=request.engine_key, size_bytes=path.stat().st_size,
                           options=options, published_by=key, manifest_digest="")
        sign(row, {"version": said["version"], "builder": request.builder}, self._store,
             self._signer)
        with self._database.writing() as session:
            if self._store.removals != removals and not self._store.has(request.engine_digest):
                raise _removed()
            if there := _same(session, request, options):
                return there.model_dump(include=_SHOWN), False
            session.add(row)
            session.flush()
            return row.model_dump(include=_SHOWN), True

    def _inspected(self, path: Path) -> dict:
        command = task_command("inspect", str(path))
        # To a file: its size is limited, which that of a pipe is not.
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
            if self._bwrap:
                command = sandboxed(command, self._bwrap, _CHECKED, path, Path(folder))
            else:
                command = limited(command, _CHECKED)
            process = subprocess.Popen(command, cwd=folder, stdout=output, start_new_session=True,
                                       stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                                       env=environment())
            watched = Watched(process, _CHECKED, Path(folder), path)
            try:
                status = process.wait()
            finally:
                watched.end("the service stopped")
            if watched.ended_because:
                raise _refused(f"the process that read it {watched.ended_because}")
            output.seek(0)
            return _read(output.read(_CHECKED.output_bytes), status)


def _removed() -> ServiceError:
    return ServiceError(409, "conflict", "the engine was removed meanwhile: upload it again")


def _read(output: bytes, status: int) -> dict:
    """What a process says of an engine, checked."""
    try:
        said = json.loads(output)
        fields = ("runs_on", "tuned_for", "version")
        if not status and "error" not in said and all(_is_text(said[name]) for name in fields):
            return {name: said[name] for name in fields}
        why = str(said["error"])[:500]
    except (ValueError, KeyError, TypeError, RecursionError):
        why = f"reading it ended with status {status}"
    raise _refused(why)


def _is_text(value) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_TEXT and value.isprintable()


def _refused(why: str) -> ServiceError:
    return ServiceError(422, "bad_engine", f"this is no engine that can be published: {why}")


def _same(session: Session, request: PublishRequest, options: dict) -> Artifact | None:
    found = session.exec(select(Artifact).where(
        Artifact.engine_digest == request.engine_digest, Artifact.model == request.model,
        Artifact.model_digest == request.model_digest, Artifact.level == request.level))
    return next((row for row in found if row.options == options), None)


def _device(session: Session, said: dict) -> str:
    """The name of a device that the engine was tuned for, or runs on; else one made of its own."""
    for column, value in ((Device.tuned_for, said["tuned_for"]), (Device.runs_on, said["runs_on"])):
        if name := session.exec(select(Device.name).where(column == value)).first():
            return name
    try:
        name = str(json.loads(said["tuned_for"])["name"])
    except (ValueError, KeyError, TypeError):
        name = ""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:64] or "unknown"
