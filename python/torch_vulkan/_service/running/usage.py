"""What the processes of a task use."""

import contextlib
import os
from pathlib import Path

_BLOCK = 512  # bytes, of st_blocks
_PRIVATE = ("RssAnon:", "VmSwap:", "VmPTE:")  # in /proc/PID/status, in KiB


def memory_bytes(process: int) -> int:
    """Memory of a process and of all that it started. Shared memory is what is mapped of it, or
    its open files in memory, whichever is more, as the same memory may be both."""
    private, shared, files = 0, 0, {}
    for one in _tree(process):
        for thread in _threads(one):  # the first may have ended, and then says nothing
            with contextlib.suppress(OSError):
                kib = _status(f"/proc/{one}/task/{thread}")
                if "RssShmem:" not in kib:
                    continue
                private += sum(kib.get(name, 0) for name in _PRIVATE) << 10
                shared += kib["RssShmem:"] << 10
                files |= _files(f"/proc/{one}/task/{thread}/fd")
                break
    return private + max(shared, sum(files.values()))


def _tree(process: int) -> list[int]:
    found = [process]
    for one in found:
        for thread in _threads(one):
            with contextlib.suppress(OSError):
                with open(f"/proc/{one}/task/{thread}/children") as file:
                    found += map(int, file.read().split())
    return found


def _threads(process: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{process}/task")
    except OSError:  # it ended
        return []


def _status(folder: str) -> dict[str, int]:
    with open(f"{folder}/status") as file:
        words = [line.split() for line in file]
    return {line[0]: int(line[1]) for line in words if len(line) == 3 and line[2] == "kB"}


def _files(folder: str) -> dict[int, int]:
    sizes = {}
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            if os.readlink(f"{folder}/{name}").startswith("/memfd:"):
                status = os.stat(f"{folder}/{name}")
                sizes[status.st_ino] = status.st_blocks * _BLOCK
    return sizes


def disk(folder: Path, without: Path, most: int) -> tuple[int, int]:
    """Bytes and number of what is in a folder, `without` left out; ends with more than `most`."""
    size, count, folders = 0, 0, [str(folder)]
    while folders and count <= most:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.path == str(without):
                    continue
                count += 1
                with contextlib.suppress(OSError):
                    size += entry.stat(follow_symlinks=False).st_blocks * _BLOCK
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                if count > most:
                    break
    return size, count
