"""What operators do: devices, keys, removing what is old."""

import asyncio

from fastapi import APIRouter, Request, Response

from ..errors import ServiceError
from ..jobs import retention
from ..messages import answers
from ..messages.requests import CollectRequest, DeviceRequest, KeyRequest, Name
from ..running import devices
from ..running.timings import LONGEST
from ..storage import keys
from ..storage.tables import ApiKey, Device
from . import faults
from .access import Id, PartsOf, may

router = APIRouter()


@router.get("/v1/devices", response_model=answers.Devices, dependencies=[may("read")])
def list_devices(parts: PartsOf):
    """The kinds of devices that can be compiled for."""
    return faults.answer({"devices": devices.listed(parts.database)})


@router.put("/v1/devices/{name}", response_model=answers.DeviceKind,
            dependencies=[may("admin")],
            responses={201: {"model": answers.DeviceKind, "description": "It is new"}})
def register(parts: PartsOf, name: Name, request: DeviceRequest):
    """Adds a kind of device by its device profile; engines for it are built, but not tuned."""
    described, is_new = devices.register(parts.database, name, request.profile)
    return faults.answer(described, 201 if is_new else 200)


def _tuned_for(parts: PartsOf, name: str) -> str:
    with parts.database.reading() as session:
        if row := session.get(Device, name):
            return row.tuned_for
    raise ServiceError(404, "not_found", f"there is no device {name!r}")


@router.get("/v1/timings/{name}", dependencies=[may("read")], response_class=Response,
            responses=answers.file("application/json", "The timings"))
def timings(parts: PartsOf, name: Name):
    """What the tuner measured on a device: a file of the compiler's (timing_cache_path)."""
    if (data := parts.timings.get(_tuned_for(parts, name))) is None:
        raise ServiceError(404, "not_found", f"nothing was tuned on {name!r} yet")
    return Response(data, media_type="application/json")


@router.post("/v1/timings/{name}", response_model=answers.Changed,
             dependencies=[may("publish")], openapi_extra=answers.body("application/json"))
async def add_timings(parts: PartsOf, name: Name, request: Request):
    """Takes what was measured elsewhere on such a device."""
    tuned_for = await asyncio.to_thread(_tuned_for, parts, name)
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > LONGEST:
            raise ServiceError(413, "too_large", f"timings of one device may have {LONGEST} bytes")
    try:
        changed = await asyncio.to_thread(parts.timings.add, tuned_for, bytes(data))
    except ValueError as error:
        raise ServiceError(422, "bad_timings", str(error)) from None
    return faults.answer({"changed": changed})


@router.get("/v1/keys", response_model=answers.Keys, dependencies=[may("admin")])
def list_keys(parts: PartsOf):
    """All keys; of each only its id, name and scopes."""
    return faults.answer({"keys": [_shown(row) for row in keys.listed(parts.database)]})


@router.post("/v1/keys", status_code=201, response_model=answers.NewKey,
             dependencies=[may("admin")])
def create(parts: PartsOf, request: KeyRequest, asked: Request):
    """Makes a key. This answer alone shows it."""
    row, key = keys.made(request.name, request.scopes)
    asked.state.audit = {"made": row.id, "scopes": row.scopes}
    keys.add(parts.database, row)
    return faults.answer(_shown(row) | {"key": key}, 201)


@router.delete("/v1/keys/{key_id}", response_model=answers.Revoked, dependencies=[may("admin")])
def revoke(parts: PartsOf, key_id: Id):
    """Ends a key: what is asked with it from now on is refused."""
    if not keys.revoke(parts.database, key_id):
        raise ServiceError(404, "not_found", f"there is no key {key_id!r}")
    return faults.answer({"id": key_id, "revoked": True})


def _shown(row: ApiKey) -> dict:
    return row.model_dump(include={*answers.Key.model_fields})


@router.post("/v1/gc", response_model=answers.Collected, dependencies=[may("admin")])
def collect(parts: PartsOf, request: CollectRequest):
    """Removes what is old, or says what it would remove."""
    keep = retention.Keep(**request.model_dump(exclude={"dry_run"}))
    return faults.answer(retention.collect(parts.database, parts.store, parts.runner, keep,
                                           request.dry_run))
