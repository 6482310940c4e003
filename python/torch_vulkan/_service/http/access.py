"""Who asks, and what they may do."""

import math
from typing import Annotated

from fastapi import Depends, Path, Query, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from ..errors import ServiceError
from ..parts import Parts
from ..storage import keys, scopes
from ..storage.scopes import Scope
from ..storage.tables import ApiKey

_bearer = HTTPBearer(auto_error=False, description="an API key: tv_<id>_<secret>")
_MOST_LISTED = 1000

Limit = Annotated[int, Query(ge=1, le=_MOST_LISTED)]
JobsLimit = Annotated[int, Query(ge=1, le=10 * _MOST_LISTED)]  # their rows are short
Id = Annotated[str, Path(max_length=64)]


async def _parts(request: Request) -> Parts:  # async: needs no thread
    return request.app.state.parts


PartsOf = Annotated[Parts, Depends(_parts)]


def _check(scope: Scope):
    def check(request: Request, parts: PartsOf,
              given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> ApiKey:
        key = keys.find(parts.database, given.credentials) if given else None
        request.state.key = key and key.id
        address = request.client.host if request.client else ""
        if wait := parts.rate.wait(f"key {key.id}" if key else f"address {address}"):
            raise ServiceError(429, "too_many", f"too many requests; the next may come in "
                                                f"{wait:.1f} s",
                               headers={"Retry-After": str(math.ceil(wait))})
        if key is None:
            raise ServiceError(401, "unauthorized", "want an API key that is valid: "
                               "Authorization: Bearer tv_…; tv-compile and Python take it from "
                               "TORCH_VULKAN_API_KEY",
                               headers={"WWW-Authenticate": "Bearer"})
        if not scopes.allow(key.scopes, scope):
            raise ServiceError(403, "forbidden", f"the key {key.id} lacks the scope {scope!r}")
        return key

    return check


def may(scope: Scope):
    """A dependency: the key, which must have the scope (admin has all)."""
    return Depends(_check(scope))


Submitter = Annotated[ApiKey, may("submit")]
Publisher = Annotated[ApiKey, may("publish")]
