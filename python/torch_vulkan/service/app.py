"""The HTTP interface. Whatever happens, a client gets JSON with a code and a message, and no
traceback."""

from fastapi import FastAPI, Response

from . import faults, routes_artifacts, routes_jobs, routes_operation, routes_page
from .access import PartsOf, may
from .observe import Observed
from .parts import Parts


def make_app(parts: Parts) -> FastAPI:
    # FastAPI's own pages load scripts from elsewhere, which here could read the key of ours.
    app = FastAPI(title="torch_vulkan compile service", version=parts.version, docs_url=None,
                  redoc_url=None)
    app.state.parts = parts
    faults.install(app, parts.most_upload_bytes)
    app.add_middleware(Observed, metrics=parts.metrics, audit=parts.audit,
                       traces=parts.traces)
    for routes in (routes_jobs, routes_artifacts, routes_operation, routes_page):
        app.include_router(routes.router)

    @app.get("/v1/health")
    def health(parts: PartsOf):
        """200 and "ok", or 503 and what is wrong."""
        wrong = [f"no {thread.name}" for thread in (parts.scheduler, parts.sender)
                 if not thread.is_alive()]
        wrong += filter(None, [parts.store.fault()])
        return faults.answer({"status": "; ".join(wrong) or "ok", "version": parts.version},
                             503 if wrong else 200)

    @app.get("/metrics", dependencies=[may("read")])
    def metrics(parts: PartsOf):
        """For Prometheus."""
        return Response(parts.metrics.text(), media_type="text/plain; version=0.0.4")

    return app
