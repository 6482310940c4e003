"""What an operator sees: metrics for Prometheus, logs as text or JSON, and the audit log."""

import json
import logging
import logging.handlers
import os
import shutil
import sys
import time
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from sqlmodel import func, select

from .rate import RateLimit
from .storage.database import Database
from .storage.store import Keeping
from .storage.tables import Artifact, EventState, Job, State, Task, WebhookEvent
from .traces import NoTraces

_PREFIX = "torch_vulkan_service_"
_LONGEST_LOG = 64 << 20
_LOGS = 8
_REFUSALS = 1, 100  # of each key: a second in the long run, and at once
_TASK_SECONDS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200)
_READING = ("GET", "HEAD", "OPTIONS")
log = logging.getLogger("torch_vulkan.service")


class _Json(logging.Formatter):
    """A record's `extra={"fields": …}` become fields of the line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {"time": round(record.created, 3), "level": record.levelname,
                "message": record.getMessage(), **getattr(record, "fields", {})}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_to_stderr(as_json: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if as_json else
                         logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it would write down receivers' URLs


class Metrics:
    """Counts since the start, and what is in the database when somebody asks."""

    def __init__(self, database: Database, store: Keeping):
        self._database, self._store = database, store
        self._registry = CollectorRegistry()
        self._requests = Histogram(
            f"{_PREFIX}request_seconds", "From a request to the begin of its answer.",
            ["method", "route", "status"], registry=self._registry,
            buckets=(.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10))
        self._tasks = Histogram(f"{_PREFIX}task_seconds", "Attempts at tasks, by how they ended.",
                                ["state"], registry=self._registry, buckets=_TASK_SECONDS)
        self._limited = Counter(f"{_PREFIX}limited", "Requests that came too often.",
                                registry=self._registry)
        self._registry.register(self)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).observe(seconds)
        if status == 429:
            self._limited.inc()

    def task(self, state: State, seconds: float) -> None:
        self._tasks.labels(str(state)).observe(max(seconds, 0))

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self):
        """prometheus_client's: the numbers of the moment."""
        with self._database.reading() as session:
            for name, table, states in (("jobs", Job, State), ("tasks", Task, State),
                                        ("webhooks", WebhookEvent, EventState)):
                found = dict(session.execute(
                    select(table.state, func.count()).group_by(table.state)).all())
                family = GaugeMetricFamily(_PREFIX + name, f"{name} by state", labels=["state"])
                for state in states:
                    family.add_metric([str(state)], found.get(state, 0))
                yield family
            count, size = session.execute(select(func.count(), func.sum(
                Artifact.size_bytes)).select_from(Artifact)).one()
            oldest = session.execute(select(func.min(Job.created)).join(Task).where(
                Task.state == State.STARTING, ~Task.later)).scalar()
            later = session.execute(select(func.count()).select_from(Task).where(
                Task.state == State.STARTING, Task.later)).scalar()
        for name, text, value in (
                ("artifacts", "engines", count), ("artifact_bytes", "of all engines", size or 0),
                ("waiting_seconds", "of the task that has waited longest",
                 max(time.time() - oldest, 0) if oldest else 0),
                ("tuning_later", "tasks that wait until their device has time", later),
                ("disk_free_bytes", "where the store is",
                 shutil.disk_usage(self._store.unfinished).free)):
            yield GaugeMetricFamily(_PREFIX + name, text, value)


class _Private(logging.handlers.RotatingFileHandler):
    """Its files are only for the service's user, each new one too."""

    def _open(self):
        return open(self.baseFilename, self.mode, encoding="utf-8",
                    opener=lambda path, flags: os.open(path, flags, 0o600))


class Audit:
    """Who changed what: a line of JSON for each request that is not one for reading, and for each
    that a key's scopes did not allow. A key that is refused over and over cannot push out what
    others did: what comes too often is not noted, nor are more refusals than `_REFUSALS`."""

    def __init__(self, path: Path):
        self._log, self._refusals = logging.Logger("audit"), RateLimit(*_REFUSALS)
        handler = _Private(path, maxBytes=_LONGEST_LOG, backupCount=_LOGS)
        for there in path.parent.glob(f"{path.name}*"):
            there.chmod(0o600)
        self._log.addHandler(handler)

    def note(self, **what) -> None:
        if what["status"] == 429 or (what["status"] == 403 and self._refusals.wait(what["key"])):
            return
        self._log.info(json.dumps({"time": round(time.time(), 3), **what}))


class Observed:
    """Middleware that notes each request."""

    def __init__(self, app, metrics: Metrics, audit: Audit, traces: NoTraces):
        self._app, self._metrics, self._audit, self._traces = app, metrics, audit, traces

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, is_noted = time.perf_counter(), False
        span = self._traces.begin("request", {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
            if name in (b"traceparent", b"tracestate")})
        scope.setdefault("state", {})["trace"] = self._traces.parent(span)

        async def noted(message):
            nonlocal is_noted
            if message["type"] == "http.response.start":
                is_noted = True
                self._note(scope, message["status"], time.perf_counter() - start, span)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except Exception:
            if not is_noted:
                self._note(scope, 500, time.perf_counter() - start, span)
            raise

    def _note(self, scope, status: int, seconds: float, span) -> None:
        method = scope["method"] if scope["method"] in (*_READING, "POST", "PUT", "DELETE") else "?"
        route = scope.get("route")
        path = route.path if route else "other"
        self._metrics.request(method, path, status, seconds)
        self._traces.end(span, f"{method} {path}", {
            "http.request.method": method, "http.route": path,
            "http.response.status_code": status}, status >= 500)
        state = scope.get("state", {})
        key = state.get("key")
        if key and (method not in _READING or status == 403):
            client = scope.get("client")
            self._audit.note(key=key, address=client[0] if client else "", method=method,
                             path=scope["path"][:300], status=status, **state.get("audit", {}))
