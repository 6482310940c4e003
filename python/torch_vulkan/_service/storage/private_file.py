"""Secrets of the service: files that only its user reads."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path


def write(path: Path, data: bytes) -> None:
    """The file is there whole or not at all."""
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)


def kept(path: Path, make: Callable[[], bytes]) -> bytes:
    """The file's contents; the first start makes it."""
    if not path.exists():
        write(path, make())
    return path.read_bytes()
