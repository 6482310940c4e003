"""What processes use that limits of a process do not count."""

import contextlib
import os

_BLOCK = 512  # bytes, of st_blocks


def shared_bytes(process: int) -> int:
    """Shared memory of a process and of all that it started: what is mapped of it, or its open
    files in memory, whichever is more, as the same memory may be both."""
    mapped, files = 0, {}
    for one in _tree(process):
        with contextlib.suppress(OSError):  # it ended
            mapped += _mapped(one)
            files |= _files(one)
    return max(mapped, sum(files.values()))


def _tree(process: int) -> list[int]:
    found = [process]
    for one in found:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{one}/task"):
                with open(f"/proc/{one}/task/{thread}/children") as file:
                    found += map(int, file.read().split())
    return found


def _mapped(process: int) -> int:
    with open(f"/proc/{process}/status") as file:
        kib = [line.split()[1] for line in file if line.startswith("RssShmem:")]
    return sum(map(int, kib)) << 10


def _files(process: int) -> dict[int, int]:
    sizes = {}
    folder = f"/proc/{process}/fd"
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            if os.readlink(f"{folder}/{name}").startswith("/memfd:"):
                status = os.stat(f"{folder}/{name}")
                sizes[status.st_ino] = status.st_blocks * _BLOCK
    return sizes
