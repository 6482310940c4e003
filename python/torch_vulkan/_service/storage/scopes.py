"""What an API key may do."""

from typing import Literal, get_args

Scope = Literal["read", "submit", "publish", "admin"]
SCOPES = get_args(Scope)


def allow(scopes: list[str], scope: Scope) -> bool:
    """Whether a key with these scopes may do what wants this one: admin has all."""
    return scope in scopes or "admin" in scopes
