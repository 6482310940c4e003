"""The tables: what the service knows, but for the files in its store."""

import time
from enum import StrEnum

from sqlalchemy import JSON, Column
from sqlmodel import Field, SQLModel


class State(StrEnum):
    """SageMaker's, of its CompilationJob."""

    STARTING = "STARTING"  # waits for a runner
    INPROGRESS = "INPROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"


# Numbers of rows that were removed are not used again: logs and runs have them in their names.
_NEVER_AGAIN = {"sqlite_autoincrement": True}
ENDED = (State.COMPLETED, State.FAILED, State.STOPPED)


class ApiKey(SQLModel, table=True):
    """A key; of its secret only the hash."""

    id: str = Field(primary_key=True)
    name: str
    secret_sha256: str
    scopes: list[str] = Field(sa_column=Column(JSON, nullable=False))
    created: float = Field(default_factory=time.time)
    revoked: float | None = None


class Device(SQLModel, table=True):
    """A kind of device that can be compiled for; `is_here`: on the service's machine, so that
    engines can be tuned for it."""

    name: str = Field(primary_key=True)
    description: str
    profile: dict = Field(sa_column=Column(JSON, nullable=False))
    runs_on: str
    tuned_for: str
    is_here: bool = False
    created: float = Field(default_factory=time.time)


class Job(SQLModel, table=True):
    """One model for some devices."""

    __table_args__ = _NEVER_AGAIN
    number: int | None = Field(default=None, primary_key=True)
    id: str = Field(unique=True, index=True)
    request_sha256: str  # the same id may be asked for again, with the same request
    model: str = Field(index=True)
    model_digest: str = Field(index=True)
    options: dict = Field(sa_column=Column(JSON, nullable=False))
    key: str  # the API key that asked for it
    notify: str | None = None  # the URL that is told of its end
    state: State = Field(default=State.STARTING, index=True)
    stop_asked: bool = False
    created: float = Field(default_factory=time.time)
    ended: float | None = None


class Task(SQLModel, table=True):
    """A job's work for one device."""

    __table_args__ = _NEVER_AGAIN
    id: int | None = Field(default=None, primary_key=True)
    job: int = Field(foreign_key="job.number", index=True)
    device: str
    level: int
    state: State = Field(default=State.STARTING, index=True)
    attempt: int = 0
    crashes: int = 0
    reasons: list[str] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    started: float | None = None
    ended: float | None = None


class EventState(StrEnum):
    """Of a webhook event."""

    PENDING = "PENDING"  # is sent, or sent again
    DELIVERED = "DELIVERED"
    DEAD = "DEAD"  # given up


class WebhookEvent(SQLModel, table=True):
    """That a job has ended, for the receiver that it named."""

    id: str = Field(primary_key=True)
    job: int = Field(foreign_key="job.number", unique=True)  # a job ends once
    url: str
    host: str
    key: str  # its secret signs the event
    body: str
    state: EventState = Field(default=EventState.PENDING, index=True)
    attempts: int = 0
    reason: str = ""  # why the last attempt failed
    next_at: float = Field(default_factory=time.time, index=True)
    created: float = Field(default_factory=time.time)
    ended: float | None = None


class Artifact(SQLModel, table=True):
    """An engine in the store, with what its manifest says."""

    id: int | None = Field(default=None, primary_key=True)
    task: int | None = Field(default=None, foreign_key="task.id", unique=True)  # it makes one
    published_by: str | None = None  # the API key that brought it, if no task made it
    model: str = Field(index=True)
    model_digest: str
    device: str
    runs_on: str
    tuned_for: str
    tuned: bool
    level: int
    options: dict = Field(sa_column=Column(JSON, nullable=False))
    engine_digest: str = Field(index=True)
    engine_key: str = ""  # under which the compiler's cache has it
    size_bytes: int
    manifest_digest: str = Field(index=True)  # of the signed manifest
    created: float = Field(default_factory=time.time)
