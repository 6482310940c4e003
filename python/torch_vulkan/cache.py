"""The cache of engines on disk (docs/deployment.md).

The key of an entry is everything that an engine's code depends on: graph, settings, device and the
version of torch_vulkan. Entries contain no weights. Nothing here needs a device.
"""

import io
import os
import re
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path

from ._base import whole_files
from ._native import C

__all__ = [
    "Entry", "Verified", "age", "clear", "directory", "entries", "export_bundle",
    "import_bundle", "info", "stats", "verify",
]

def __dir__() -> list[str]:
    return sorted(__all__)


_MEMBER = re.compile(r"([a-z_]{1,32})/([0-9a-f]{64})")


@dataclass(frozen=True)
class Entry:
    """One file of the cache.

    Attributes:
        kind: "engines", "spirv" (compiled kernels) or "timing".
        name: digest of its key.
        path: of the file.
        size_bytes: of the file.
        used: time of the last use, in seconds since 1970.
        state: "good" (judging by its name; `verify` reads the contents), "bad" (set aside) or
            "unfinished" (being written).
    """

    kind: str
    name: str
    path: str
    size_bytes: int
    used: float
    state: str = "good"

    def key(self) -> str:
        """The key that the entry is stored under, as text. Raises ValueError if it is damaged."""
        return C.cache_entry_key(self.path).decode(errors="replace")


@dataclass(frozen=True)
class Verified:
    """The result of `verify`.

    Attributes:
        good: number of intact entries.
        bad: what is wrong with each of the others, by path.
    """

    good: int
    bad: dict[str, str]


def directory(path: str | os.PathLike | None = None) -> Path:
    """The user's cache directory, or `path` if it is given.

    Raises:
        ValueError: there is neither a home directory nor XDG_CACHE_HOME, or the directory may not
            be used, with the reason.
    """
    found = os.fspath(path) if path is not None else C.default_cache_dir()
    if not found:
        raise ValueError("there is no cache directory: neither XDG_CACHE_HOME nor HOME is set")
    if why := C.why_unsafe_cache(str(found)):
        raise ValueError(f"the cache directory {found} is not used: {why}")
    return Path(found)


def stats() -> dict:
    """Counts of this process: hit, miss, bad, evicted, bypass, written, failed_writes, and
    `reasons`, a dict of counts by reason ("miss: it is not in the cache")."""
    return C.cache_stats()


def entries(path: str | os.PathLike | None = None) -> list[Entry]:
    """Every entry, the most recently used first."""
    found = [Entry(kind=f["kind"], name=f["name"], path=f["path"], size_bytes=f["size_bytes"],
                   used=f["used"], state=_state(f)) for f in C.cache_files(str(directory(path)))]
    return sorted(found, key=lambda entry: (-entry.used, entry.path))


def _state(file) -> str:
    return "unfinished" if file["temporary"] else "bad" if file["bad"] else "good"


def verify(path: str | os.PathLike | None = None) -> Verified:
    """Reads every entry and checks its digest. Changes nothing: a bad entry is set aside when it is
    next looked up."""
    good, bad = 0, {}
    for entry in entries(path):
        if entry.state != "good":
            bad[entry.path] = entry.state
            continue
        if data := _read(entry):
            if fault := C.cache_entry_fault(data, entry.name):
                bad[entry.path] = fault
            else:
                good += 1
    return Verified(good, bad)


def _read(entry: Entry) -> bytes | None:
    """The entry's bytes; None if another process has removed it in the meantime."""
    try:
        return Path(entry.path).read_bytes()
    except FileNotFoundError:
        return None


def clear(path: str | os.PathLike | None = None) -> int:
    """Removes every entry and returns how many there were. Processes that are using the cache build
    their engines again."""
    removed = 0
    for entry in entries(path):
        try:
            os.unlink(entry.path)
            removed += entry.state == "good"
        except FileNotFoundError:
            pass
    return removed


def export_bundle(file: str | os.PathLike, path: str | os.PathLike | None = None) -> int:
    """Writes all good entries to a tar archive and returns how many. The archive is written to a
    temporary file and renamed."""
    found, count = entries(path), 0
    with whole_files.written(file, "cache export") as archive, tarfile.open(
            fileobj=archive, mode="w") as bundle:
        os.chmod(archive.name, 0o600)
        for entry in found:
            data = _read(entry) if entry.state == "good" else None
            if data is None or C.cache_entry_fault(data, entry.name):
                continue
            member = tarfile.TarInfo(f"{entry.kind}/{entry.name}")
            member.size, member.mtime, member.mode = len(data), int(entry.used), 0o600
            bundle.addfile(member, io.BytesIO(data))
            count += 1
    return count


def import_bundle(file: str | os.PathLike, path: str | os.PathLike | None = None) -> int:
    """Adds the entries of an archive that `export_bundle` wrote; returns how many. An entry is code
    that will run: import only bundles that you trust.

    Raises:
        ValueError: the file is not such an archive, or contains anything else. Entries before the
            first fault have been added; each is complete.
    """
    target = str(directory(path))
    if os.path.isdir(file):
        raise IsADirectoryError(f"cache import: {file} is a directory, want the file that `cache "
                                "export` wrote")
    count = 0
    try:
        with tarfile.open(file, mode="r:") as bundle:
            for member in bundle:
                match = _MEMBER.fullmatch(member.name)
                if not member.isreg() or not match:
                    raise ValueError(f"{file}: {member.name!r} is not an entry of a cache")
                data = bundle.extractfile(member).read()
                if len(data) != member.size:
                    raise ValueError(f"{file}: {member.name} is cut short")
                C.import_cache_entry(target, match[1], match[2], data)
                count += 1
    except (tarfile.TarError, EOFError) as error:
        raise ValueError(f"{file} is not a bundle that `cache export` wrote: {error}") from None
    return count


def info(path: str | os.PathLike | None = None) -> dict:
    """Where the cache is and what it contains, by kind; also for the system's directory."""
    def summary(found):
        kinds = {}
        for entry in found:
            kind = kinds.setdefault(entry.kind, {"entries": 0, "size_bytes": 0, "bad": 0})
            kind["entries"] += entry.state == "good"
            kind["bad"] += entry.state == "bad"
            kind["size_bytes"] += entry.size_bytes
        return kinds

    system = C.system_cache_dir()
    refused = C.why_unsafe_cache(system, True)
    there = os.path.isdir(system) and not refused
    of_system = [Entry(f["kind"], f["name"], f["path"], f["size_bytes"], f["used"], _state(f))
                 for f in C.cache_files(system)] if there else []
    user = directory(path)
    return {"directory": str(user), "kinds": summary(entries(path)),
            "system_directory": system, "system_refused": refused,
            "system_kinds": summary(of_system), "program": C.builder_digest()}


def age(used: float) -> str:
    """How long ago `used` was, as text: "3 minutes", "2 days"."""
    seconds = max(0.0, time.time() - used)
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return "less than a minute"
