"""The devices that can be compiled for."""

import hashlib
import json
import subprocess

from sqlmodel import select

from ..errors import ServiceError
from ..storage.database import Database
from ..storage.tables import Device
from .sandbox import environment, task_command

_SECONDS = 120


def _asked(command: str, given: str = ""):
    """What a process with the compiler answers: a driver's fault does not end the service."""
    done = subprocess.run(task_command(command), input=given, capture_output=True, text=True,
                          timeout=_SECONDS, env=environment())
    if done.returncode:
        raise RuntimeError(f"task {command} ended with status {done.returncode}: "
                           f"{done.stderr.strip()[-400:]}")
    return json.loads(done.stdout)


def here() -> list[dict]:
    """The devices of this machine."""
    return _asked("devices")


def resource(tuned_for: str) -> str:
    """What a kind of device is called as a resource of a cluster."""
    return f"vulkan-{hashlib.sha256(tuned_for.encode()).hexdigest()[:16]}"


def refresh(database: Database) -> list[str]:
    """Notes which devices are on this machine; returns their names. Two of a kind are one."""
    found = {device["name"]: device for device in here()}
    with database.writing() as session:
        for row in session.exec(select(Device)):
            row.is_here = False
            session.add(row)
        for name, device in found.items():
            row = session.get(Device, name)
            session.add(row.sqlmodel_update(device | {"is_here": True}) if row
                        else Device(**device, is_here=True))
    return [*found]


def register(database: Database, name: str, profile: dict) -> tuple[dict, bool]:
    """Adds a device by its device profile, or replaces that of one that is not here.

    Raises:
        ServiceError: the profile is bad, or the name is that of a device of this machine.
    """
    described = _asked("profile", json.dumps(profile))
    if "error" in described:
        raise ServiceError(422, "bad_profile", described["error"])
    described["name"] = name
    with database.writing() as session:
        row = session.get(Device, name)
        if row and row.is_here:
            raise ServiceError(409, "conflict", f"device {name!r} is on the service's machine")
        session.add(row.sqlmodel_update(described) if row else Device(**described))
        return described, row is None


def kinds(database: Database, here: bool = False) -> list[str]:
    """`tuned_for` of all kinds of devices, or of those of this machine."""
    query = select(Device.tuned_for).distinct()
    with database.reading() as session:
        return [*session.exec(query.where(Device.is_here) if here else query)]


def listed(database: Database) -> list[dict]:
    with database.reading() as session:
        rows = [*session.exec(select(Device).order_by(Device.name))]
    return [row.model_dump() for row in rows]
