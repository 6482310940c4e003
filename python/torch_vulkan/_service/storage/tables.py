"""The tables: what the service knows, but for the files in its store."""

import time
from enum import StrEnum

from sqlalchemy import JSON, BigInteger, Column, Index, Integer
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
_BIG = BigInteger().with_variant(Integer, "sqlite")  # whose integers are, and count by themselves
ENDED = (State.COMPLETED, State.FAILED, State.STOPPED)


class ApiKey(SQLModel, table=True):
    """A key; of its secret only the hash."""

    id: str = Field(primary_key=True)
    name: str
    secret_sha256: str
    scopes: list[str] = Field(sa_column=Column(JSON, nullable=False))
    created: float = Field(default_factory=time.time)
    revoked: float | None = None


class Upload(SQLModel, table=True):
    """That a key uploaded a file which is in the store."""

    digest: str = Field(primary_key=True)
    key: str = Field(primary_key=True, index=True)
    size_bytes: int = Field(sa_type=_BIG)


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
    number: int | None = Field(default=None, primary_key=True, sa_type=_BIG)
    id: str = Field(unique=True, index=True)
    request_sha256: str  # the same id may be asked for again, with the same request
    model: str = Field(index=True)
    model_digest: str = Field(index=True)
    options: dict = Field(sa_column=Column(JSON, nullable=False))
    key: str  # the API key that asked for it
    trace: str = ""  # of the request that submitted it (traces.py)
    notify: str | None = None  # the URL that is told of its end
    state: State = Field(default=State.STARTING, index=True)
    stop_asked: bool = False
    created: float = Field(default_factory=time.time)
    ended: float | None = None


class Task(SQLModel, table=True):
    """A job's work for one device: at level 0 the engine that is there soon; above, the tuned one
    that comes after it. `later`: nobody had the device to tune on, so the job's end does not
    wait."""

    __table_args__ = (Index("ix_task_waiting", "state", "later", "level"),
                      Index("ix_task_of_device", "device", "state", "later"), _NEVER_AGAIN)
    id: int | None = Field(default=None, primary_key=True, sa_type=_BIG)
    job: int = Field(foreign_key="job.number", index=True, sa_type=_BIG)
    device: str
    level: int
    later: bool = False
    state: State = State.STARTING
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
    job: int = Field(foreign_key="job.number", unique=True, sa_type=_BIG)  # it ends once
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

    id: int | None = Field(default=None, primary_key=True, sa_type=_BIG)
    task: int | None = Field(default=None, foreign_key="task.id", unique=True,  # it makes one
                             sa_type=_BIG)
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
    size_bytes: int = Field(sa_type=_BIG)
    manifest_digest: str = Field(index=True)  # of the signed manifest
    created: float = Field(default_factory=time.time)
