"""Answers, and what becomes of errors: JSON with a code and a message."""

import errno
import json
import logging

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DataError, DBAPIError, InterfaceError, OperationalError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from ..errors import Away, Damaged, ServiceError
from ..messages.requests import WANTED

log = logging.getLogger("torch_vulkan.service")
_MOST_JSON_BYTES = 1 << 20
_UPLOADS = ("/v1/models", "/v1/engines", "/v1/timings/")
_CODES = {404: "not_found", 405: "method_not_allowed", 400: "bad_request"}


def answer(value, status: int = 200) -> Response:
    """ASCII alone: what a client sent may come back in it, and need not be valid Unicode."""
    return Response(json.dumps(value), status, media_type="application/json")


def _error(status: int, code: str, message: str, details=(), headers=None) -> Response:
    made = answer({"error": {"code": code, "message": message, "details": [*details]}}, status)
    made.headers.update(headers or {})
    return made


def install(app: FastAPI, most_upload_bytes: int) -> None:
    """Makes every error of the app an answer, and bounds what a request may send."""
    app.add_exception_handler(ServiceError, _service_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Damaged, _damaged)
    app.add_exception_handler(OSError, _os_error)
    app.add_exception_handler(DBAPIError, _database_error)
    app.add_exception_handler(Exception, _unexpected)
    app.add_middleware(_Bounded, most_upload_bytes=most_upload_bytes)


async def _service_error(_request: Request, error: ServiceError) -> Response:
    return _error(error.status, error.code, error.message, error.details, error.headers)


async def _invalid(_request: Request, error: RequestValidationError) -> Response:
    lines = [f"{'.'.join(str(part)[:80] for part in found['loc'])}: {_wanted(found)}"
             for found in error.errors()[:20]]
    return _error(422, "invalid", "the request is invalid", lines)


def _wanted(found: dict) -> str:
    words = WANTED.get(found.get("ctx", {}).get("pattern"))
    return f"want {words}" if words else found["msg"][:300]


async def _http_error(_request: Request, error: HTTPException) -> Response:
    return _error(error.status_code, _CODES.get(error.status_code, "error"), str(error.detail))


async def _gone(_request: Request, _left: ClientDisconnect) -> Response:
    return _error(400, "gone", "the client left before its request was complete")


async def _damaged(_request: Request, error: Damaged) -> Response:
    return _error(500, "damaged", f"{error}: upload it again")


async def _os_error(request: Request, error: OSError) -> Response:
    if isinstance(error, Away):
        log.error("%s", error)
        return _error(503, f"{error.what}_away",  # why has addresses, and may go to anybody
                      f"the {error.what} cannot be reached; try again later",
                      headers={"Retry-After": "10"})
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        log.error("the disk is full")
        return _error(507, "full", "the service has no room on its disk; nothing was kept")
    return await _unexpected(request, error)


async def _database_error(request: Request, error: DBAPIError) -> Response:
    if isinstance(error, DataError):
        return _error(422, "invalid", "the request has a text that the database cannot hold")
    if "full" in str(error.orig):
        return await _os_error(request, OSError(errno.ENOSPC, ""))
    if isinstance(error, (OperationalError, InterfaceError)):
        return await _os_error(request, Away("database", str(error.orig)[:300]))
    return await _unexpected(request, error)


async def _unexpected(request: Request, error: Exception) -> Response:
    log.error("%s %s", request.method, request.url.path, exc_info=error)
    return _error(500, "internal", "the service failed; its log says why")


class _TooLarge(Exception):
    pass


class _Bounded:
    """Counts the bytes of a request's body while they come in."""

    def __init__(self, app, most_upload_bytes: int):
        self._app, self._most_upload = app, most_upload_bytes

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = self._most_upload if scope["path"].startswith(_UPLOADS) else _MOST_JSON_BYTES
        answering = _error(413, "too_large", f"a request to {scope['path'][:80]} may have {most} "
                                             "bytes")
        if _declared(scope) > most:
            await answering(scope, receive, send)
            return
        seen, started = 0, False

        async def counted():
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > most:
                raise _TooLarge
            return message

        async def noted(message):
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, counted, noted)
        except _TooLarge:
            if started:
                raise
            await answering(scope, receive, send)


def _declared(scope) -> int:
    value = dict(scope["headers"]).get(b"content-length", b"0")
    return int(value) if value.isdigit() else 0
