"""Puts limits on itself, then becomes the task: a file run by its path, with the standard library
alone.

    launch.py PARENT MEMORY_BYTES CPU_SECONDS FILE_BYTES COMMAND…

The task ends with the process that started it, however that ends.
"""

import ctypes
import os
import resource
import signal
import sys

_PR_SET_PDEATHSIG = 1
_OPEN_FILES = 256


def main() -> None:
    parent, memory, cpu, file_size = map(int, sys.argv[1:5])
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before that
        sys.exit(1)
    for limit, value in ((resource.RLIMIT_DATA, memory), (resource.RLIMIT_FSIZE, file_size),
                         (resource.RLIMIT_NOFILE, _OPEN_FILES), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(limit, (value, value))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 5))  # SIGXCPU says why
    os.nice(5)
    os.execv(sys.argv[5], sys.argv[5:])


if __name__ == "__main__":
    main()
