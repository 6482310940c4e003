"""The command line of a task: limits, and bubblewrap around it."""

import functools
import os
import secrets
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
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
# What a task may write to in memory: bytes.
_IN_MEMORY = {"/tmp": 1 << 30, "/dev/shm": 64 << 20}
_LEAST_THREADS = 512
# Nobody's: systemd, too, takes users of services from these (DynamicUser).
_GROUP = 61184
_USERS = range(_GROUP + 1, 65520)


@dataclass(frozen=True)
class Limits:
    """What one task may use.

    Attributes:
        memory_bytes: memory, shared too.
        cpu_seconds: of all its threads.
        seconds: from its start to its end.
        output_bytes: its largest file.
    """

    memory_bytes: int = 16 << 30
    cpu_seconds: int = 4 * 3600
    seconds: int = 2 * 3600
    output_bytes: int = 4 << 30

    @property
    def folder_bytes(self) -> int:
        """Of all that it writes: an engine that takes the place of another, and what is small."""
        return 2 * self.output_bytes + (64 << 20)


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


def limited(command: list[str], limits: Limits, unpack: tuple[Path, Path] | None = None,
            give: tuple[int, int, Path, Path] | None = None) -> list[str]:
    """The command under limits, ended with this process.

    Args:
        unpack: a bundle, and the folder for its files, which are there before the command begins.
        give: a user, its group, the model and the folder that it is to read and write.
    """
    before = ["--unpack", *map(str, unpack)] if unpack else []
    before += ["--give", *map(str, give)] if give else []
    launcher = Path(__file__).with_name("launch.py")
    return [PYTHON, "-I", "-S", str(launcher), str(os.getpid()), str(limits.memory_bytes),
            str(limits.cpu_seconds), str(limits.output_bytes), *before, *command]


def boxed(command: list[str], bwrap: str, model: Path, out: Path, user: int = -1) -> list[str]:
    """The command without network, with the system, the model (a file or a folder, read-only)
    and `out` to write to: at the same paths as outside; as one process, which is `user`'s."""
    seen = _shown()
    arguments = [bwrap, *_namespaces(user), "--die-with-parent", "--new-session",
                 "--proc", "/proc", "--dev", "/dev"]
    for path, size in _IN_MEMORY.items():
        arguments += ["--perms", "1777", "--size", str(size), "--tmpfs", path]
    arguments += _folders([*seen, str(out), str(model)])
    for path in dict.fromkeys(seen):
        arguments += ["--ro-bind-try", path, path]
    for path in _GPUS:
        arguments += ["--dev-bind-try", path, path]
    # The model last: where it is in `out`, it is read-only all the same.
    arguments += ["--bind", str(out), str(out), "--ro-bind", str(model), str(model),
                  "--remount-ro", "/dev", "--remount-ro", "/", "--"]
    return arguments + _confined(command, user, out)


def sandboxed(command: list[str], bwrap: str, limits: Limits, model: Path, out: Path,
              unpack: tuple[Path, Path] | None = None) -> list[str]:
    """The command as tasks of strangers run: boxed and limited; not as root, if root asks."""
    user = _user()
    give = (user, _GROUP, model, out) if user >= 0 else None
    return limited(boxed(command, bwrap, model, out, user), limits, unpack, give)


def _user() -> int:
    """Whom a task runs as; -1: this process's user. Linux does not limit root's processes."""
    return _USERS[secrets.randbelow(len(_USERS))] if os.geteuid() == 0 else -1


def _namespaces(user: int) -> list[str]:
    if user < 0:
        return ["--unshare-all", "--cap-drop", "ALL"]
    return ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts",
            "--unshare-cgroup-try", "--cap-drop", "ALL", "--cap-add", "CAP_SETUID",
            "--cap-add", "CAP_SETGID"]


def _folders(paths: list[str]) -> list[str]:
    """Makes what is above the paths, for all to enter: bubblewrap's own are its user's alone."""
    above = {str(folder): None for path in paths for folder in reversed(Path(path).parents)}
    return [word for folder in above if folder != "/"
            for word in ("--perms", "0755", "--dir", folder)]


def _confined(command: list[str], user: int, out: Path) -> list[str]:
    threads = max(_LEAST_THREADS, 4 * (os.cpu_count() or 1))
    confine = Path(__file__).with_name("confine.py")
    groups = ",".join(map(str, [_GROUP, *_gpu_groups()]))
    return [PYTHON, "-I", "-S", str(confine), str(user), groups, str(threads), str(out), *command]


def _gpu_groups() -> list[int]:
    """Groups that GPUs' device nodes belong to: render and video, as a rule."""
    nodes = [node for path in map(Path, _GPUS) for node in (path, *path.glob("*"))]
    return sorted({node.stat().st_gid for node in nodes if node.exists()} - {0})


def _shown() -> list[str]:
    return [*_SYSTEM, sys.base_prefix, PYTHON, str(ROOT / "torch_vulkan"),
            str(ROOT / "torch_vulkan.libs"), str(SCRIPT)]


def shows(path: Path) -> bool:
    """Whether tasks see what is at this path of the service's."""
    return any(path.resolve().is_relative_to(os.path.realpath(shown)) for shown in _shown())


@functools.cache
def why_not(bwrap: str | None) -> str:
    """Why tasks cannot be boxed here; "": they can."""
    if bwrap is None:
        return "bwrap is not installed (Debian and Ubuntu: apt install bubblewrap)"
    import subprocess
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        model, out = Path(folder, "model"), Path(folder, "out")
        model.touch()
        out.mkdir()
        try:
            tried = subprocess.run(
                sandboxed(task_command("inspect", str(model)), bwrap, Limits(), model, out),
                capture_output=True, text=True, timeout=60, env=environment())
        except subprocess.TimeoutExpired:
            return f"a task in {bwrap} did not end within 60 s"
    if tried.returncode == 0:
        return ""
    said = (tried.stderr.strip().splitlines() or [f"status {tried.returncode}"])[-1]
    return f"a task cannot be run in {bwrap}: {said[:200]}"
