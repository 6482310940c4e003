"""A store on an fsspec URL (s3://, gs://, abfs://, memory://, …): the same files at the same places
as in a folder, and copies of those that were used of late on this machine.
"""

import contextlib
import datetime
import errno
import logging
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from ..._base import whole_files
from ..errors import Away, Damaged, package
from .store import Keeping, Store, Writing, place

_PIECE = 1 << 20
_MARK = "torch-vulkan-store"
_IN_USE_S = 3600  # a copy that was asked for is not removed for so long
_TIMES = ("LastModified", "last_modified", "updated", "mtime", "created")
# Their files appear when they are whole; elsewhere they are written beside and moved.
_WHOLE = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "memory"}
# The drivers' own would let a thread wait for minutes.
_OPTIONS = {name: {"config_kwargs": {"connect_timeout": 5, "read_timeout": 60,
                                     "retries": {"max_attempts": 2}}} for name in ("s3", "s3a")}
log = logging.getLogger("torch_vulkan.service")


def opened(url: str, folder: Path, most_bytes: int) -> Keeping:
    """The store of a URL; file:// is a folder. `folder`, `most_bytes`: for copies on this machine.

    Raises:
        ValueError, ImportError: nothing here knows such a URL.
    """
    if urlsplit(url).scheme == "file":
        return Store(Path(package("fsspec", "service-stores").core.url_to_fs(url)[1]))
    return RemoteStore(url, folder, most_bytes)


def file_system(url: str):
    """fsspec's file system of a URL, and the path there."""
    try:
        options = _OPTIONS.get(urlsplit(url).scheme, {})
        fsspec = package("fsspec", "service-stores")
        return fsspec.core.url_to_fs(url, use_listings_cache=False, **options)
    except ImportError as error:  # it names the package
        raise ImportError(f"the store {url}: {error}") from None
    except ValueError as error:
        raise ValueError(f"the store {url}: {error}") from None


class RemoteStore(Keeping):
    """Threads may share one. Methods that reach for the store raise Away where they cannot."""

    batch = 20

    def __init__(self, url: str, folder: Path, most_bytes: int):
        self.url, self._most_bytes = url, most_bytes
        self._fs, self._root = file_system(url)
        self._copies = Store(folder)
        self.unfinished = self._copies.unfinished
        self._seen = folder / "seen"  # names the store that was marked
        self._fault = ""

    def _asked(self, do, *given):
        """Calls a method of the file system, whose errors may be of any library."""
        try:
            value = do(*given)
        except FileNotFoundError:
            raise
        except Exception as error:
            self._fault = f"{self.url}: {type(error).__name__}: {str(error)[:300]}"
            raise Away("store", self._fault) from error
        self._fault = ""
        return value

    def _place(self, digest: str) -> str:
        return f"{self._root}/{place(digest)}"

    def _check_mark(self) -> None:
        """What is not found may be so because the store is not: another bucket, nothing mounted.
        A store that was used once has a mark."""
        mark = f"{self._root}/{_MARK}"
        try:
            self._asked(self._fs.info, mark)
        except FileNotFoundError:
            if self._seen.is_file() and self._seen.read_text() == self.url:
                self._fault = (f"{self.url} has no file {_MARK}, which it had: it is another one, "
                               f"or was emptied; to begin anew, remove {self._seen}")
                raise Away("store", self._fault) from None
            try:
                self._asked(self._parents, mark)
                self._asked(self._fs.pipe_file, mark, b"see docs/service.md\n")
            except FileNotFoundError as error:
                self._fault = f"{self.url} is not there: {error}"
                raise Away("store", self._fault) from None
        if not self._seen.is_file() or self._seen.read_text() != self.url:
            whole_files.write_text(self._seen, self.url, "store")

    def _parents(self, path: str) -> None:
        if self._protocols().isdisjoint(_WHOLE):
            self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)

    def _protocols(self) -> set[str]:
        names = self._fs.protocol
        return {names} if isinstance(names, str) else {*names}

    def fault(self) -> str:
        """Why the store cannot be used now; "": it can. Asks it only where it could not be."""
        if self._fault:
            try:
                self._check_mark()
            except Away:
                return self._fault
        return ""

    def has(self, digest: str) -> bool:
        try:
            self._asked(self._fs.info, self._place(digest))
            return True
        except FileNotFoundError:
            self._check_mark()
            return False

    def keep(self, path: Path, digest: str) -> None:
        there = self._place(digest)
        try:
            self._check_mark()
            self._asked(self._parents, there)
            if self._protocols().isdisjoint(_WHOLE):
                beside = f"{self._root}/unfinished-{uuid.uuid4().hex}"
                self._asked(self._fs.put_file, str(path), beside)
                self._asked(self._fs.mv, beside, there)
            else:
                self._asked(self._fs.put_file, str(path), there)
        except FileNotFoundError as error:
            raise Away("store", f"{self.url} is not there: {error}") from None
        self._copies.keep(path, digest)
        self._forget_copies()

    def fetch(self, digest: str) -> Path:
        """A copy on this machine. Raises FileNotFoundError where the store has no such file, and
        Damaged where it has another one in its place."""
        copy = self._copies.path(digest)
        with contextlib.suppress(FileNotFoundError):  # a touch could make an empty one
            os.utime(copy)
            return copy
        writing = Writing(self._copies)
        try:
            with self._asked(self._fs.open, self._place(digest), "rb") as file:
                size = getattr(file, "size", None)
                while piece := self._asked(file.read, _PIECE):
                    writing.write(piece)
            if size is not None and writing.size_bytes < size:
                raise Away("store", f"{self.url}: {digest} broke off on its way")
            if writing.digest() != digest:
                log.error("%s: the file %s is damaged there", self.url, digest)
                raise Damaged(digest)
            writing.finish()
        except FileNotFoundError:
            writing.abandon()
            self._check_mark()
            raise FileNotFoundError(errno.ENOENT, f"the store has no {digest}") from None
        except BaseException:
            writing.abandon()
            raise
        self._forget_copies()
        return copy

    def _forget_copies(self) -> None:
        """Those that were not asked for longest, where there are too many."""
        kept = sorted((changed, size, digest) for digest, size, changed in self._copies.files())
        total = sum(size for _, size, _ in kept)
        for _, size, digest in kept:
            if total <= self._most_bytes:
                return
            if self._copies.remove(digest, time.time() - _IN_USE_S):
                total -= size

    def files(self) -> Iterator[tuple[str, int, float]]:
        """Digest, bytes and time of each file."""
        try:
            found = self._asked(lambda: self._fs.find(f"{self._root}/sha256", detail=True))
        except FileNotFoundError:
            found = {}
        if not found:
            self._check_mark()
        for name, info in found.items():
            yield f"sha256:{name.rpartition('/')[2]}", info["size"], _time(info)

    def remove(self, digest: str, before: float) -> bool:
        """Removes a file unless it is gone, or was put again since that time."""
        try:
            if _time(self._asked(self._fs.info, self._place(digest))) >= before:
                return False
            self._asked(self._fs.rm_file, self._place(digest))
        except FileNotFoundError:
            return False
        self._copies.remove(digest, float("inf"))
        self.removals += 1
        return True


def _time(info: dict) -> float:
    """When a file was written, in seconds; where nobody says, now: it is not old then."""
    value = next((info[name] for name in _TIMES if info.get(name)), None)
    if isinstance(value, str):
        try:
            value = datetime.datetime.fromisoformat(value)
        except ValueError:
            value = None
    if isinstance(value, datetime.datetime):
        return value.timestamp() if value.tzinfo else value.replace(
            tzinfo=datetime.UTC).timestamp()
    return float(value) if isinstance(value, (int, float)) else time.time()
