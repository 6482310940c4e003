"""The digest at the end of a saved program.

A .pt2 or .pt is a zip archive, of which torch checks little when it reads: with one bit flipped, a
program may run and give other numbers. So tv.save puts the SHA-256 of the whole file into the
archive's comment, its last bytes, which all readers of archives pass over, and tv.load compares it.
"""

import hashlib
import os
import zipfile
from pathlib import Path
from typing import BinaryIO

from .._base.errors import OUT_OF_MEMORY

_WORDS = b"torch_vulkan sha256 "
_LENGTH = len(_WORDS) + 64
_AT_ONCE = 1 << 20


def close(file: BinaryIO) -> None:
    """Writes the digest behind an archive that has no comment yet, and is all of `file`."""
    file.seek(-2, os.SEEK_END)  # the length of the comment, which is what an archive ends with
    if file.read(2) != b"\0\0":
        raise RuntimeError("the archive has a comment")
    file.seek(-2, os.SEEK_END)
    file.write(_LENGTH.to_bytes(2, "little"))
    size = file.seek(0, os.SEEK_END)
    file.write(_WORDS + _digest(file, size))


def fault(path: Path) -> str:
    """What is wrong with the bytes of an archive; "" if nothing is. One without a digest, which
    torch wrote alone, has at least a checksum for each file in it."""
    with open(path, "rb") as file:
        size = max(0, file.seek(0, os.SEEK_END) - _LENGTH)
        file.seek(size)
        end = file.read()
        if end.startswith(_WORDS) and len(end) == _LENGTH:
            return "" if end == _WORDS + _digest(file, size) else "its digest does not match"
    try:
        with zipfile.ZipFile(path) as archive:
            comment = archive.comment
            ours = len(comment) == _LENGTH or _WORDS.startswith(comment[:len(_WORDS)])
            if ours if comment else end[-2:] != b"\0\0":
                return "its digest is damaged or missing"
            damaged = archive.testzip()
        return f"{damaged} is not as it was written" if damaged is not None else ""
    except OUT_OF_MEMORY:
        raise
    except Exception as error:  # of many types, for an archive may be damaged in many ways
        return str(error)


def _digest(file: BinaryIO, size: int) -> bytes:
    """Of the first `size` bytes, in hexadecimal; leaves the file at `size`."""
    digest = hashlib.sha256()
    file.seek(0)
    while size > 0 and (piece := file.read(min(size, _AT_ONCE))):
        digest.update(piece)
        size -= len(piece)
    return digest.hexdigest().encode()
