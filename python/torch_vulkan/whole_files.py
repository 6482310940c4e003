"""Files that readers see whole or not at all."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def written(path: str | os.PathLike, who: str) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` when the block ends; on an error `path` is
    as it was.

    Raises:
        IsADirectoryError: `path` is one; the message begins with `who`.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{who}: {path} is a directory, want the name of a file")
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(unfinished, "wb") as file:
            yield file
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
