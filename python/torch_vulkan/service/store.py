"""Files by what is in them: sha256/ab/abcdef….

A file is there whole or not at all, and never changes; the same contents twice are one file.
"""

import errno
import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PIECE = 1 << 20


class Writing:
    """A file that is being written. `finish` gives its digest; `abandon` removes it."""

    def __init__(self, store: "Store"):
        self._store, self._sha = store, hashlib.sha256()
        self.size_bytes = 0
        self._file = tempfile.NamedTemporaryFile(dir=store.unfinished, delete=False)

    def write(self, data: bytes) -> None:
        self._sha.update(data)
        self.size_bytes += len(data)
        self._file.write(data)

    def finish(self) -> str:
        digest = f"sha256:{self._sha.hexdigest()}"
        place = self._store.path(digest)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        place.parent.mkdir(parents=True, exist_ok=True)
        os.replace(self._file.name, place)
        descriptor = os.open(place.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return digest

    def abandon(self) -> None:
        self._file.close()
        Path(self._file.name).unlink(missing_ok=True)


class Store:
    """A folder as a content-addressed store; one process writes to it at a time."""

    def __init__(self, folder: Path):
        self._folder = folder
        self.unfinished = folder / "unfinished"
        self.unfinished.mkdir(parents=True, exist_ok=True)
        for left in self.unfinished.iterdir():  # by a process that was killed
            left.unlink()

    def path(self, digest: str) -> Path:
        """Where the file is, or would be. Raises ValueError for what is no digest."""
        if not _DIGEST.fullmatch(digest):
            raise ValueError(f"got {digest[:80]!r}, want sha256: and 64 hexadecimal digits")
        name = digest.removeprefix("sha256:")
        return self._folder / "sha256" / name[:2] / name

    def has(self, digest: str) -> bool:
        return self.path(digest).is_file()

    def put(self, data: bytes) -> str:
        """Keeps the bytes; returns their digest."""
        writing = Writing(self)
        try:
            writing.write(data)
            return writing.finish()
        except BaseException:
            writing.abandon()
            raise

    def files(self) -> Iterator[tuple[str, int, float]]:
        """Digest, bytes and time of each file."""
        for path in (self._folder / "sha256").glob("??/*"):
            try:
                found = path.stat()
            except FileNotFoundError:
                continue
            yield f"sha256:{path.name}", found.st_size, found.st_mtime

    def remove(self, digest: str, before: float) -> bool:
        """Removes a file unless it is gone, or was put again since that time."""
        path = self.path(digest)
        try:
            if path.stat().st_mtime >= before:
                return False
            path.unlink()
        except FileNotFoundError:
            return False
        return True

    def take(self, path: Path) -> tuple[str, int]:
        """Keeps what a task wrote; returns digest and size. Raises as open_plain does."""
        writing = Writing(self)
        try:
            with open_plain(path) as file:
                while piece := file.read(_PIECE):
                    writing.write(piece)
            return writing.finish(), writing.size_bytes
        except BaseException:
            writing.abandon()
            raise


def open_plain(path: Path) -> BinaryIO:
    """Opens what a task wrote. Raises ValueError if it is no regular file: a link could lead to
    what the task must not read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise ValueError(f"{path.name} is no regular file") from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError(f"{path.name} is no regular file")
    return open(descriptor, "rb")
