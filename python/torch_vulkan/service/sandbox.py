"""The command line of a task: limits, and bubblewrap around it."""

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "torch_vulkan_service.py"
PYTHON = os.path.realpath(sys.executable)
# Of the service's environment, what a task gets: none of it is secret.
_VARIABLES = ("LANG", "LC_ALL", "LP_NATIVE_VECTOR_WIDTH", "LP_NUM_THREADS", "VK_DRIVER_FILES",
              "VK_ICD_FILENAMES", "LD_LIBRARY_PATH", "TORCH_VULKAN_LIBRARY", "TORCH_VULKAN_LOG")
# What is seen of the machine, read-only; anything else is not there.
_SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/alternatives",
           "/etc/vulkan", "/etc/glvnd", "/sys")
_GPUS = ("/dev/dri", "/dev/kfd", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-modeset",
         "/dev/dxg", *(f"/dev/nvidia{i}" for i in range(16)))


@dataclass(frozen=True)
class Limits:
    """What one task may use.

    Attributes:
        memory_bytes: private memory.
        cpu_seconds: of all its threads.
        seconds: from its start to its end.
        output_bytes: its largest file.
    """

    memory_bytes: int = 16 << 30
    cpu_seconds: int = 4 * 3600
    seconds: int = 2 * 3600
    output_bytes: int = 4 << 30


def bubblewrap() -> str | None:
    """The program, if it is there."""
    return shutil.which("bwrap")


def task_command(*arguments: str) -> list[str]:
    """Runs one of task.py's commands; neither site-packages nor the environment reach it."""
    return [PYTHON, "-I", "-S", str(SCRIPT), "task", *arguments]


def environment() -> dict[str, str]:
    """What a task's environment holds."""
    kept = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    return kept | {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "TORCH_VULKAN_SYSTEM_CACHE": "/none"}


def limited(command: list[str], limits: Limits, unpack: tuple[Path, Path] | None = None
            ) -> list[str]:
    """The command under limits, ended with this process; `unpack`: a bundle, and the folder for its
    files, which are there before the command begins."""
    before = ["--unpack", *map(str, unpack)] if unpack else []
    launcher = Path(__file__).with_name("launch.py")
    return [PYTHON, "-I", "-S", str(launcher), str(os.getpid()), str(limits.memory_bytes),
            str(limits.cpu_seconds), str(limits.output_bytes), *before, *command]


def boxed(command: list[str], bwrap: str, model: Path, out: Path) -> list[str]:
    """The command without network, with the system, the model (a file or a folder, read-only)
    and `out` to write to: at the same paths as outside."""
    seen = [*_SYSTEM, sys.base_prefix, str(Path(PYTHON).parents[1]), str(ROOT / "torch_vulkan"),
            str(ROOT / "torch_vulkan.libs"), str(SCRIPT)]
    arguments = [bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
                 "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    for path in dict.fromkeys(seen):
        arguments += ["--ro-bind-try", path, path]
    for path in _GPUS:
        arguments += ["--dev-bind-try", path, path]
    # The model last: where it is in `out`, it is read-only all the same.
    arguments += ["--bind", str(out), str(out), "--ro-bind", str(model), str(model),
                  "--chdir", str(out), "--"]
    return arguments + command


def why_not(bwrap: str | None) -> str:
    """Why tasks cannot be boxed here; "": they can."""
    if bwrap is None:
        return "bwrap is not installed (Debian and Ubuntu: apt install bubblewrap)"
    import subprocess

    tried = subprocess.run([bwrap, "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc",
                            "--dev", "/dev", "true"], capture_output=True, text=True, timeout=20)
    return "" if tried.returncode == 0 else (
        f"{bwrap} cannot make namespaces here: {tried.stderr.strip()[:200]}")
