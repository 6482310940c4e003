"""What the service answers: /openapi.json has it, and what is shown of rows of the database goes by
it. Routes write JSON without a check against these; a test compares."""

from pydantic import BaseModel, ConfigDict, create_model

from ..storage import tables
from ..storage.tables import EventState, State


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


def _rows(table: type, without: frozenset | set = frozenset(), name: str = "") -> type[_Answer]:
    """Rows of a table, without some columns."""
    fields = {column: (field.annotation, ...) for column, field in table.model_fields.items()
              if column not in without}
    return create_model(name or table.__name__, __base__=_Answer, __doc__=table.__doc__, **fields)


class Error(_Answer):
    """`code` is for programs, `message` and `details` for people."""

    code: str
    message: str
    details: list[str]


class Refusal(_Answer):
    error: Error


class Health(_Answer):
    """`status`: "ok", or what is wrong."""

    status: str
    version: str


class Uploaded(_Answer):
    digest: str
    size_bytes: int


class Task(_Answer):
    """What is done for one device. `level`: 0, or that which is tuned at; `later`: it waits for a
    machine that has the device; `artifact`: the digest of its engine; times are seconds since
    1970."""

    device: str
    state: State
    level: int
    later: bool
    attempt: int
    reasons: list[str]
    artifact: str | None
    started: float | None
    ended: float | None


class Webhook(_Answer):
    """The event of a job that ended; `reason`: why the last attempt failed; `next_at`: when the
    next one is due."""

    id: str
    state: EventState
    attempts: int
    host: str
    reason: str
    next_at: float
    created: float
    ended: float | None


class JobHead(_Answer):
    """`number`: to go on from, in a list."""

    id: str
    number: int
    state: State
    model: str
    model_digest: str
    created: float
    ended: float | None


class Job(JobHead):
    options: dict
    webhook: Webhook | None
    tasks: list[Task]


class JobDetails(Job):
    """`waits_for`: why no job goes on now; "": they do."""

    waits_for: str


class Jobs(_Answer):
    jobs: list[JobHead]


class WebhookOfJob(Webhook):
    job: str


class Webhooks(_Answer):
    webhooks: list[WebhookOfJob]


class Secret(_Answer):
    secret: str


Artifact = _rows(tables.Artifact, without={"id", "task"})


class Artifacts(_Answer):
    artifacts: list[Artifact]


class SigningKey(_Answer):
    key: str


Device = _rows(tables.Device)
DeviceKind = _rows(tables.Device, without={"is_here", "created"}, name="DeviceKind")


class Devices(_Answer):
    devices: list[Device]


class Changed(_Answer):
    changed: bool


Key = _rows(tables.ApiKey, without={"secret_sha256"}, name="Key")


class NewKey(Key):
    key: str


class Keys(_Answer):
    keys: list[Key]


class Revoked(_Answer):
    id: str
    revoked: bool


class Collected(_Answer):
    """`names`: the first of what was, or would be, removed."""

    dry_run: bool
    jobs: int
    artifacts: int
    files: int
    bytes: int
    names: list[str]


REFUSED = {status: {"model": Refusal, "description": text} for status, text in (
    ("4XX", "The request is refused, and why"), ("5XX", "The service has a fault"))}


def body(media_type: str) -> dict:
    """A request whose body is a file."""
    schema = {"type": "string", "format": "binary"}
    return {"requestBody": {"required": True, "content": {media_type: {"schema": schema}}}}


def file(media_type: str, text: str) -> dict:
    """An answer that is a file."""
    return {200: {"description": text, "content": {media_type: {"schema": {"type": "string"}}}}}
