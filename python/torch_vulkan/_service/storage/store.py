"""Files by what is in them: sha256/ab/abcdef….

A file is there whole or not at all, and never changes; the same contents twice are one file.
"""

import errno
import hashlib
import os
import re
import stat
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import BinaryIO

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PIECE = 1 << 20
_FETCHED_AT_A_TIME = 4


class Writing:
    """A file that is being written. `finish` gives its digest; `abandon` removes it."""

    def __init__(self, store: "Keeping"):
        self._store, self._sha = store, hashlib.sha256()
        self.size_bytes = 0
        self._file = tempfile.NamedTemporaryFile(dir=store.unfinished, delete=False)

    def write(self, data: bytes) -> None:
        self._sha.update(data)
        self.size_bytes += len(data)
        self._file.write(data)

    def digest(self) -> str:
        """Of what was written."""
        return f"sha256:{self._sha.hexdigest()}"

    def finish(self) -> str:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._store.keep(Path(self._file.name), self.digest())
        return self.digest()

    def abandon(self) -> None:
        self._file.close()
        Path(self._file.name).unlink(missing_ok=True)


class Keeping:
    """What stores have in common.

    Attributes:
        unfinished: a folder of this machine for files that are being written.
        removals: how many files were removed: while this is the same, a file that was seen is
            still there.
        batch: the most files to remove while writers of the database wait.
    """

    unfinished: Path
    removals = 0
    batch = 200

    def keep(self, path: Path, digest: str) -> None:
        """Takes a finished file of `unfinished`."""
        raise NotImplementedError

    def put(self, data: bytes) -> str:
        """Keeps the bytes; returns their digest."""
        writing = Writing(self)
        try:
            writing.write(data)
            return writing.finish()
        except BaseException:
            writing.abandon()
            raise

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


class Store(Keeping):
    """A folder as a content-addressed store; one process writes to it at a time."""

    def __init__(self, folder: Path):
        self._folder = folder
        self.unfinished = folder / "unfinished"
        self.unfinished.mkdir(parents=True, exist_ok=True)
        for left in self.unfinished.iterdir():  # by a process that was killed
            left.unlink()

    @property
    def url(self) -> str:
        return self._folder.resolve().as_uri()

    def fault(self) -> str:
        """Why the store cannot be used now; "": it can."""
        return ""

    def path(self, digest: str) -> Path:
        """Where the file is, or would be. Raises ValueError for what is no digest."""
        return self._folder / place(digest)

    def fetch(self, digest: str) -> Path:
        """The file on this machine. Raises FileNotFoundError."""
        path = self.path(digest)
        if not path.is_file():
            raise FileNotFoundError(errno.ENOENT, f"the store has no {digest}")
        return path

    def has(self, digest: str) -> bool:
        return self.path(digest).is_file()

    def keep(self, path: Path, digest: str) -> None:
        there = self.path(digest)
        there.parent.mkdir(parents=True, exist_ok=True)
        os.replace(path, there)
        descriptor = os.open(there.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

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
        self.removals += 1
        return True


class Prefetch:
    """Files of a store, fetched by threads of its own: whoever asks does not wait. Used by one
    thread."""

    def __init__(self, store: Keeping):
        self._store = store
        self._futures: dict[str, Future] = {}

    def keep(self, wanted: set[str]) -> None:
        """Forgets files that came, and that nobody wants any more."""
        self._futures = {digest: future for digest, future in self._futures.items()
                         if digest in wanted or not future.done()}

    def get(self, digest: str) -> Path | None:
        """The file on this machine, or None while it is on its way. Raises what fetching did."""
        if isinstance(self._store, Store):
            return self._store.fetch(digest)
        future = self._futures.get(digest)
        on_their_way = sum(not one.done() for one in self._futures.values())
        if future is None and on_their_way < _FETCHED_AT_A_TIME:
            future = self._futures[digest] = Future()
            # A daemon: the service may end before it does.
            threading.Thread(target=self._fetch, args=(digest, future), daemon=True).start()
        if future is None or not future.done():
            return None
        path = self._futures.pop(digest).result()
        return path if path.is_file() else None  # removed meanwhile: once more

    def _fetch(self, digest: str, future: Future) -> None:
        try:
            future.set_result(self._store.fetch(digest))
        except Exception as error:
            future.set_exception(error)


def place(digest: str) -> str:
    """Where a file is in a store. Raises ValueError for what is no digest."""
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"got {digest[:80]!r}, want sha256: and 64 hexadecimal digits")
    name = digest.removeprefix("sha256:")
    return f"sha256/{name[:2]}/{name}"


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
