"""Puts limits on itself, then becomes the task: a file run by its path, with the standard library
alone.

    launch.py PARENT MEMORY_BYTES CPU_SECONDS FILE_BYTES [--unpack BUNDLE FOLDER]
        [--give USER GROUP MODEL FOLDER] COMMAND…

A bundle's files are written before: the task is to see them, and not to change them. Where root
starts a task that becomes another user, the model is given to the group to read, and the folder to
the user.
The task ends with the process that started it, however that ends.
"""

import ctypes
import importlib.util
import os
import resource
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_OPEN_FILES = 256


def main() -> None:
    parent, memory, cpu, file_size = map(int, sys.argv[1:5])
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before that
        sys.exit(1)
    command = sys.argv[5:]
    if command[0] == "--unpack":
        _unpack(*command[1:3])
        command = command[3:]
    if command[0] == "--give":
        _give(int(command[1]), int(command[2]), Path(command[3]), Path(command[4]))
        command = command[5:]
    for limit, value in ((resource.RLIMIT_DATA, memory), (resource.RLIMIT_FSIZE, file_size),
                         (resource.RLIMIT_NOFILE, _OPEN_FILES), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(limit, (value, value))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 5))  # SIGXCPU says why
    os.nice(5)
    os.execv(command[0], command)


def _unpack(path: str, folder: str) -> None:
    # By its path, without what is around it: some of that is named as modules of Python are.
    path_of_module = Path(__file__).parents[1] / "files" / "bundle.py"
    spec = importlib.util.spec_from_file_location("bundle", path_of_module)
    bundle = sys.modules["bundle"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bundle)
    try:
        bundle.unpack(Path(path), Path(folder))
    except (ValueError, OSError) as error:
        sys.exit(f"the model's files cannot be unpacked: {error}")


def _give(user: int, group: int, model: Path, folder: Path) -> None:
    for path in (model, *(model.rglob("*") if model.is_dir() else ())):
        os.chown(path, -1, group, follow_symlinks=False)
        path.chmod(path.stat().st_mode | (0o050 if path.is_dir() else 0o040))
    for path in (folder, *folder.iterdir()):
        if path != model:
            os.chown(path, user, group, follow_symlinks=False)


if __name__ == "__main__":
    main()
