"""Files that readers see whole or not at all."""

import contextlib
import errno
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_LONGEST_NAME = 255
_MOST_LINKS = 40  # as the kernel's
_MOST_SIGNALS = 100


@contextlib.contextmanager
def written(path: str | os.PathLike, who: str) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` when the block ends; on an error `path` is
    as it was. As runtime/base/file.h has it: a symbolic link is followed, and stays; what is no
    regular file, a device, a FIFO or /dev/stdout, is written into when the block ends; a new file's
    mode is as the umask says, one that is replaced keeps its own.

    Raises:
        IsADirectoryError: `path` is one; the message begins with `who`.
        ValueError: `path` is empty.
        OSError: it cannot be written; the message names `path`.
    """
    refuse_no_file(path, who)
    path = Path(path)
    target, descriptor = _followed(path)
    mode = _mode(path)
    if descriptor is not None or (mode is not None and not stat.S_ISREG(mode)):
        with tempfile.TemporaryFile() as file:
            yield file
            file.seek(0)
            # Not "wb", which would cut what a descriptor's file holds already.
            with _closed_at_end(open(
                    path if descriptor is None else os.dup(descriptor), "wb",
                    opener=lambda name, flags: os.open(name, os.O_WRONLY))) as there:
                shutil.copyfileobj(file, there)
        return
    unfinished = target.with_name(_unfinished(target.name))
    try:
        with _closed_at_end(_begun(unfinished, path)) as file:
            if mode is not None:
                _repeated(os.chmod, unfinished, stat.S_IMODE(mode))
            yield file
        _repeated(os.replace, unfinished, target)
    except OSError as error:  # of a write, which names no file, or of the unfinished one
        elsewhere = isinstance(error, (ConnectionError, TimeoutError))  # what the caller reads from
        if error.errno is None or elsewhere or error.filename not in (None, str(unfinished)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink()


def refuse_no_file(path: str | os.PathLike, who: str) -> None:
    """Raises where a path cannot be a file's, as `written` does."""
    if not os.fspath(path):
        raise ValueError(f"{who}: got an empty path, want the name of a file")
    if Path(path).is_dir():
        raise IsADirectoryError(f"{who}: {path} is a directory, want the name of a file")


def refuse_no_place(path: str | os.PathLike, who: str) -> None:
    """Raises what `written` would for a path that cannot be a file's, or whose folder is not there:
    before work whose result goes there."""
    refuse_no_file(path, who)
    folder = Path(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, _no_folder(folder), str(path))


def _no_folder(folder: Path) -> str:
    return f"there is no folder {folder}: make it first"


def write_text(path: str | os.PathLike, text: str, who: str) -> None:
    """Writes a text, as `written` has it."""
    with written(path, who) as file:
        file.write(text.encode())


def _begun(unfinished: Path, path: Path) -> BinaryIO:
    try:
        return open(unfinished, "x+b")
    except OSError as error:
        folder = unfinished.parent
        missing = error.errno == errno.ENOENT and not folder.is_dir()
        reason = _no_folder(folder) if missing else error.strerror
        raise OSError(error.errno, reason, str(path)) from None


def _repeated(call, *args):
    """What Python does not repeat by itself when a signal interrupts it."""
    for _ in range(_MOST_SIGNALS):
        with contextlib.suppress(InterruptedError):
            return call(*args)
    return call(*args)


@contextlib.contextmanager
def _closed_at_end(file: BinaryIO) -> Iterator[BinaryIO]:
    """Python repeats what a signal interrupts, but for closing, after which Linux has closed the
    file all the same."""
    try:
        yield file
        file.flush()
    finally:
        with contextlib.suppress(InterruptedError):
            file.close()


def _unfinished(name: str) -> str:
    suffix = f".{os.getpid()}.{secrets.token_hex(4)}.tmp"  # threads may write the same file
    room = _LONGEST_NAME - len(suffix) - 1
    return f".{os.fsdecode(os.fsencode(name)[:room])}{suffix}"


def _mode(path: Path) -> int | None:
    """None if there is nothing."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _followed(path: Path) -> tuple[Path, int | None]:
    """What the links in the last place of `path` lead to; or a descriptor of this process, which
    /dev/stdout and /dev/fd/3 name."""
    own = os.path.realpath("/proc/self/fd")
    for _ in range(_MOST_LINKS):
        if path.name.isdigit() and os.path.realpath(path.parent) == own:
            return path, int(path.name)
        if not path.is_symlink():
            return path, None
        path = path.parent / os.readlink(path)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
