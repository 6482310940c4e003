"""A model of several files as one: what is uploaded, kept and removed together. Standard library
alone.

    b"TVBUNDLE", the header's bytes (8, little-endian), the header, the files one after another

The header is JSON, {"files": [[name, bytes], …]}, the ONNX file first and then those that it names,
in order; at most one after the first is [name, bytes, "weights"], a .safetensors file. Nothing in
it is a link, a mode or a time, so the same files are the same bundle. No ONNX file begins like
that: in protobuf it would be the end of a group.
"""

import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

MAGIC = b"TVBUNDLE"
MOST_FILES = 1000
WEIGHTS = "weights"
_HEAD = len(MAGIC) + 8
_MOST_HEADER = 1 << 20
_LONGEST_PART, _LONGEST_NAME = 200, 1000
_ODD = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]")
_PIECE = 1 << 20


@dataclass(frozen=True)
class Entry:
    """A file of a bundle; `name` is relative to the ONNX file's folder; `role`: "", or WEIGHTS."""

    name: str
    size_bytes: int
    role: str = ""

    def row(self) -> list:
        return [self.name, self.size_bytes, *([self.role] if self.role else [])]


def check_names(names: Sequence[str]) -> None:
    """Raises ValueError unless these are the files of one folder and of those in it."""
    if not 1 <= len(names) <= MOST_FILES:
        raise ValueError(f"[bundle] got {len(names)} files, want 1 to {MOST_FILES}")
    for name in names:
        parts = name.split("/")
        if _ODD.search(name) or any(part in ("", ".", "..") for part in parts):
            raise ValueError(f"[bundle] got the file name {name[:80]!a}, want a relative one "
                             "without '..', '.', '\\' and control characters")
        if len(name.encode()) > _LONGEST_NAME or any(
                len(part.encode()) > _LONGEST_PART for part in parts):
            raise ValueError(f"[bundle] the file name {name[:80]!a}… is too long")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"[bundle] the file {twice[:80]!a} is there twice")
    folders = {"/".join(name.split("/")[:i]) for name in names
               for i in range(1, name.count("/") + 1)}
    if both := folders & set(names):
        raise ValueError(f"[bundle] {min(both)[:80]!a} is a file and a folder")


def header(entries: Sequence[Entry]) -> bytes:
    """What precedes the files."""
    check_names([entry.name for entry in entries])
    text = json.dumps({"files": [entry.row() for entry in entries]}).encode()
    if len(text) > _MOST_HEADER:
        raise ValueError(f"[bundle] a header of {len(text)} bytes, want at most {_MOST_HEADER}")
    return MAGIC + len(text).to_bytes(8, "little") + text


def _parsed(text: bytes) -> list[Entry]:
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("[bundle] the header is no JSON") from None
    files = read.get("files") if isinstance(read, dict) and len(read) == 1 else None
    if not isinstance(files, list) or not all(
            isinstance(one, list) and len(one) in (2, 3) and isinstance(one[0], str)
            and type(one[1]) is int and 0 <= one[1] < 2 ** 62 and one[2:] in ([], [WEIGHTS])
            for one in files):
        raise ValueError('[bundle] the header is not {"files": [[name, bytes], …]}')
    entries = [Entry(*one) for one in files]
    if sum(bool(entry.role) for entry in entries[1:]) > 1 or any(e.role for e in entries[:1]):
        raise ValueError("[bundle] want one file of weights at most, after the ONNX file")
    check_names([entry.name for entry in entries])
    return entries


def _header_bytes(head: bytes) -> int:
    size = int.from_bytes(head[len(MAGIC):_HEAD], "little")
    if size > _MOST_HEADER:
        raise ValueError(f"[bundle] a header of {size} bytes, want at most {_MOST_HEADER}")
    return size


def entries_of(file: BinaryIO) -> list[Entry] | None:
    """The files of a bundle, which is left where the first begins; None: it is no bundle. Raises
    ValueError for a bad one."""
    head = file.read(_HEAD)
    if not head.startswith(MAGIC):
        return None
    size = _header_bytes(head)
    text = file.read(size)
    if len(head) < _HEAD or len(text) < size:
        raise ValueError("[bundle] it ends within the header")
    return _parsed(text)


class Check:
    """Looks at an upload while it comes: a bundle is refused as soon as its header is bad. What is
    no bundle passes."""

    def __init__(self):
        self._head, self._seen, self._total = bytearray(), 0, None

    def take(self, piece: bytes) -> None:
        """Raises ValueError."""
        self._seen += len(piece)
        if self._head is None:
            return
        self._head += piece[:_HEAD + _MOST_HEADER]
        if not self._head.startswith(MAGIC[:len(self._head)]):
            self._head = None
        elif len(self._head) >= _HEAD:
            end = _HEAD + _header_bytes(self._head)
            if len(self._head) >= end:
                entries = _parsed(bytes(self._head[_HEAD:end]))
                self._total = end + sum(entry.size_bytes for entry in entries)
                self._head = None

    def finish(self) -> None:
        """Raises ValueError unless a bundle has as many bytes as it says."""
        if self._head is not None and self._seen >= len(MAGIC):
            raise ValueError("[bundle] it ends within the header")
        if self._total is not None and self._seen != self._total:
            raise ValueError(f"[bundle] got {self._seen} bytes, and its header says {self._total}: "
                             "it was cut, or a file changed while it was sent")


def unpack(path: Path, folder: Path) -> None:
    """Writes a bundle's files to a folder that is not there yet, read-only. Raises ValueError."""
    with open(path, "rb") as source:
        entries = entries_of(source)
        if entries is None:
            raise ValueError("[bundle] it is none")
        folder.mkdir()
        for entry in entries:
            there = folder / entry.name
            there.parent.mkdir(parents=True, exist_ok=True)
            with open(there, "xb") as file:
                for piece in _exactly(source, entry.size_bytes, entry.name):
                    file.write(piece)
                os.fchmod(file.fileno(), 0o444)


def _exactly(source: BinaryIO, size: int, name: str) -> Iterator[bytes]:
    while size:
        piece = source.read(min(_PIECE, size))
        if not piece:
            raise ValueError(f"[bundle] {name[:80]!a} is shorter than the header says")
        size -= len(piece)
        yield piece


class Source:
    """A model as it is sent: an ONNX file alone, or the bundle of it, the files that it names and
    a .safetensors file of weights, which may lie anywhere.

    Raises:
        ValueError: a file that it names lies elsewhere, or is a link.
        OSError: one is not there.
    """

    def __init__(self, model: str | os.PathLike, names: Sequence[str] = (),
                 weights: str | os.PathLike | None = None):
        path = Path(model)
        # Not their own names: the digest does not depend on those.
        first, last = _free("model.onnx", names), _free("weights.safetensors", names)
        check_names([first, *names])
        entries = [(first, path, ""),
                   *((name, _beside(path.parent, name), "") for name in sorted(names))]
        if weights is not None:
            entries.append((last, Path(weights), WEIGHTS))
        self._paths = [there for _, there, _ in entries]
        self._entries = [Entry(name, os.path.getsize(there), role) for name, there, role in entries]
        self._head = header(self._entries) if len(entries) > 1 else b""
        self.size_bytes = len(self._head) + sum(entry.size_bytes for entry in self._entries)

    def pieces(self) -> Iterator[bytes]:
        """The bytes to send. Raises ValueError where a file has become shorter."""
        if self._head:
            yield self._head
        for path, entry in zip(self._paths, self._entries, strict=True):
            with open(path, "rb") as file:
                yield from _exactly(file, entry.size_bytes, str(path))


def _free(name: str, names: Sequence[str]) -> str:
    """A name that neither a file nor a folder of `names` has."""
    taken = {one.split("/")[0] for one in names}
    while name in taken:
        name = f"_{name}"
    return name


def _beside(folder: Path, name: str) -> Path:
    """As the compiler reads it: below the folder, through no link."""
    path = folder
    for part in name.split("/"):
        path = path / part
        if stat.S_ISLNK(os.lstat(path).st_mode):
            raise ValueError(f"{path}: the model's data is behind a link, which is not followed")
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise ValueError(f"{path}: the model's data is no regular file")
    return path
