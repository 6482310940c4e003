"""API keys: tv_<id>_<secret>.

The secret has 256 random bits, so a plain hash of it is enough; it is compared in constant time.
"""

import hashlib
import hmac
import re
import secrets
import time

from sqlmodel import select

from .database import Database
from .scopes import SCOPES
from .tables import ApiKey

_KEY = re.compile(r"tv_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_NOBODY = "0" * 64  # compared with where there is no such key, which takes as long


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def made(name: str, scopes: list[str]) -> tuple[ApiKey, str]:
    """A new key's row, which is not in the database yet, and the key: it cannot be shown again."""
    key_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    return ApiKey(id=key_id, name=name, secret_sha256=_hash(secret),
                  scopes=[scope for scope in SCOPES if scope in scopes]), f"tv_{key_id}_{secret}"


def add(database: Database, row: ApiKey) -> None:
    with database.writing() as session:
        session.add(row)


def find(database: Database, key: str) -> ApiKey | None:
    """The row of a valid key that has not been revoked."""
    match = _KEY.fullmatch(key)
    if not match:
        return None
    with database.reading() as session:
        row = session.get(ApiKey, match[1])
    same = hmac.compare_digest(row.secret_sha256 if row else _NOBODY, _hash(match[2]))
    return row if row and same and row.revoked is None else None


def revoke(database: Database, key_id: str) -> bool:
    """False: there is no such key."""
    with database.writing() as session:
        row = session.get(ApiKey, key_id)
        if row and row.revoked is None:
            row.revoked = time.time()
            session.add(row)
    return row is not None


def listed(database: Database) -> list[ApiKey]:
    with database.reading() as session:
        return [*session.exec(select(ApiKey).order_by(ApiKey.created))]
