"""Models and engines: uploaded, published, listed, given."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse

from ..errors import ServiceError
from ..files import bundle
from ..jobs import artifacts
from ..messages import answers
from ..messages.requests import Digest, PublishRequest
from ..parts import Parts
from ..storage.quotas import give_back, note
from ..storage.store import Writing
from ..storage.tables import ApiKey
from . import faults
from .access import Limit, PartsOf, Publisher, Submitter, may

router = APIRouter()
_CHECK_BYTES = 64 << 20


async def _kept(parts: Parts, request: Request, key: ApiKey, what: str):
    quotas, folder = parts.quotas, parts.store.unfinished
    said = request.headers.get("content-length", "")
    quotas.check(folder, int(said) if said.isdigit() else 0)
    writing, checked, check = Writing(parts.store), 0, bundle.Check()
    try:
        async for piece in request.stream():
            check.take(piece)
            writing.write(piece)
            if writing.size_bytes - checked > _CHECK_BYTES:
                checked = writing.size_bytes
                quotas.check_disk(folder, 0)
        if not writing.size_bytes:
            raise ServiceError(422, "empty", f"the upload is empty; want {what}")
        check.finish()
        digest = await asyncio.to_thread(_take, parts, key.id, writing)
    except ValueError as error:
        writing.abandon()
        raise ServiceError(422, "bad_bundle", str(error)) from None
    except BaseException:
        writing.abandon()
        raise
    return faults.answer({"digest": digest, "size_bytes": writing.size_bytes}, 201)


def _take(parts: Parts, key: str, writing: Writing) -> str:
    """Counts a file, then keeps it: what would be too much is never in the store."""
    parts.quotas.check_disk(parts.store.unfinished, 0)
    digest, size = writing.digest(), writing.size_bytes
    is_new = parts.quotas.take(parts.database, key, digest, size)
    try:
        writing.finish()
    except BaseException:
        if is_new:
            give_back(parts.database, key, digest)
        raise
    note(parts.database, key, digest, size)
    return digest


@router.post("/v1/models", status_code=201, response_model=answers.Uploaded,
             openapi_extra=answers.body("application/octet-stream"))
async def upload_model(parts: PartsOf, key: Submitter, request: Request):
    """Takes the bytes of an ONNX file, or a bundle of one and the files of external data that it
    names: "TVBUNDLE", the header's length (8 bytes, little-endian), the header, which is JSON
    ({"files": [[name, bytes], …]}, the ONNX file first), and the files one after another. One
    after the first may be [name, bytes, "weights"]: a .safetensors file, whose tensors take the
    place of the model's initialisers. Names are relative to the ONNX file's folder. The digest is
    of all of it."""
    return await _kept(parts, request, key, "an ONNX file")


@router.post("/v1/engines", status_code=201, response_model=answers.Uploaded,
             openapi_extra=answers.body("application/octet-stream"))
async def upload_engine(parts: PartsOf, key: Publisher, request: Request):
    """Takes the bytes of a .vke file, to be published."""
    return await _kept(parts, request, key, "a .vke file")


@router.post("/v1/artifacts", status_code=201, response_model=answers.Artifact,
             responses={200: {"model": answers.Artifact, "description": "It was there"}})
async def publish(parts: PartsOf, key: Publisher, request: PublishRequest):
    """Makes an uploaded engine an artefact. The same again gives the same artefact."""
    async with parts.publisher.turn():
        made, is_new = await asyncio.to_thread(parts.publisher.publish, request, key.id)
    return faults.answer(made, 201 if is_new else 200)


@router.get("/v1/artifacts", response_model=answers.Artifacts, dependencies=[may("read")])
def list_artifacts(parts: PartsOf, model: Annotated[str | None, Query(max_length=300)] = None,
                   runs_on: Annotated[str | None, Query(max_length=20000)] = None,
                   limit: Limit = 100):
    """Engines, the newest first."""
    return faults.answer({"artifacts": artifacts.listed(parts.database, model, runs_on, limit)})


@router.get("/v1/artifacts/{digest}", dependencies=[may("read")], response_class=FileResponse,
            responses=answers.file("application/octet-stream", "The file"))
def artifact(parts: PartsOf, digest: Digest):
    """The bytes of an engine, or of a signed manifest."""
    if not artifacts.is_one(parts.database, digest):
        raise ServiceError(404, "not_found", f"there is no artefact {digest}")
    try:
        return FileResponse(parts.store.fetch(digest), media_type="application/octet-stream")
    except FileNotFoundError:
        raise ServiceError(404, "not_found", f"the store has lost {digest}") from None


@router.get("/v1/signing-key", response_model=answers.SigningKey, dependencies=[may("read")])
def signing_key(parts: PartsOf):
    """The public key that manifests are signed for."""
    return faults.answer({"key": parts.signer.public})
