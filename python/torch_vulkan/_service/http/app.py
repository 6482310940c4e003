"""The HTTP interface. Whatever happens, a client gets JSON with a code and a message, and no
traceback."""

import logging
import threading
import time

from fastapi import FastAPI, Response

from ..messages import answers
from ..observe import Observed
from ..parts import Parts
from ..storage.store import Keeping
from . import faults, routes_artifacts, routes_jobs, routes_operation, routes_page, routes_reference
from .access import PartsOf, may

_PROBED_S = 2
log = logging.getLogger("torch_vulkan.service")


class _StoreFault:
    """What is said of the store to those who have no key. One that is away is asked by one request
    at a time, and not all the time."""

    def __init__(self, store: Keeping):
        self._store, self._lock = store, threading.Lock()
        self._said, self._until = "", 0.0

    def __call__(self) -> str:
        if time.monotonic() >= self._until and self._lock.acquire(blocking=False):
            try:
                fault = self._store.fault()
                if fault:
                    log.error("the store cannot be reached: %s", fault)
                    self._until = time.monotonic() + _PROBED_S
                self._said = "the store cannot be reached" if fault else ""
            finally:
                self._lock.release()
        return self._said


def make_app(parts: Parts) -> FastAPI:
    app = FastAPI(title="torch_vulkan compile service", version=parts.version, docs_url=None,
                  redoc_url=None, responses=answers.REFUSED)
    app.state.parts = parts
    faults.install(app, parts.most_upload_bytes)
    app.add_middleware(Observed, metrics=parts.metrics, audit=parts.audit,
                       traces=parts.traces)
    for routes in (routes_jobs, routes_artifacts, routes_operation, routes_page,
                   routes_reference):
        app.include_router(routes.router)

    store_fault = _StoreFault(parts.store)

    @app.get("/v1/health", response_model=answers.Health)
    def health(parts: PartsOf):
        """200 and "ok", or 503 and what is wrong."""
        wrong = [f"no {thread.name}" for thread in (parts.scheduler, parts.sender)
                 if not thread.is_alive()]
        wrong += filter(None, [store_fault()])
        return faults.answer({"status": "; ".join(wrong) or "ok", "version": parts.version},
                             503 if wrong else 200)

    @app.get("/metrics", dependencies=[may("read")], response_class=Response,
             responses=answers.file("text/plain", "Metrics"))
    def metrics(parts: PartsOf):
        """For Prometheus."""
        return Response(parts.metrics.text(), media_type="text/plain; version=0.0.4")

    return app
