"""What a task can reach."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx
import pytest

import torch_vulkan as tv
import torch_vulkan._service.running.local_runner as local_runner
import torch_vulkan._service.running.sandbox as sandbox
from torch_vulkan._service.running.runner import Run
from torch_vulkan._service.running.sandbox import (
    PYTHON,
    Limits,
    boxed,
    bubblewrap,
    environment,
    sandboxed,
    why_not,
)
from torch_vulkan._service.storage.store import Store

from workloads.patience import patience
from workloads.service_process import SCRIPT, SECONDS, Service, layers, until

needs_bwrap = pytest.mark.skipif(why_not(shutil.which("bwrap")) != "",
                                 reason=why_not(shutil.which("bwrap")))


LIMITS = Limits()
AS_A_USER = {"user": 65534, "group": 65534, "extra_groups": []}


def users_python():
    """One that a user other than root can run; "": none."""
    for python in (PYTHON, "/usr/bin/python3"):
        tried = [bubblewrap(), "--unshare-all", "--ro-bind", "/", "/", python, "-c",
                 f"import os; os.stat({str(Path(tv.__file__))!r})"]
        try:
            if subprocess.run(tried, **AS_A_USER, capture_output=True).returncode == 0:
                return python
        except OSError:
            pass
    return ""


@pytest.fixture(params=["as it is", "user"])
def boxed_run(request, tmp_path, monkeypatch):
    """Runs Python in a sandbox; where root tests, by a service of root's and by a user's."""
    model, out = tmp_path / "model", tmp_path / "out"
    model.write_bytes(b"model")
    out.mkdir(mode=0o700)
    model.chmod(0o600)
    if request.param == "as it is":
        return lambda script, limits=LIMITS: subprocess.run(
            sandboxed([PYTHON, "-c", script], bubblewrap(), limits, model, out), text=True,
            capture_output=True, timeout=patience(120), env=environment())
    if os.geteuid() != 0:
        pytest.skip("as it is, it is a user's")
    python = users_python()
    if not python:
        pytest.skip("no other user can run Python and read the package here")
    monkeypatch.setattr(sandbox, "PYTHON", python)
    monkeypatch.setattr(sys, "base_prefix", str(Path(os.path.realpath(python)).parents[1]))
    out.chmod(0o777)
    model.chmod(0o644)
    for folder in (tmp_path, *tmp_path.parents):
        if folder == Path(tempfile.gettempdir()):
            break
        folder.chmod(folder.stat().st_mode | 0o055)

    def run(script, limits=LIMITS):
        command = boxed([python, "-c", script], bubblewrap(), model, out)
        limit = (f"import os, resource, sys; n = {limits.memory_bytes}; resource.setrlimit("
                 "resource.RLIMIT_DATA, (n, n)); os.execv(sys.argv[1], sys.argv[1:])")
        return subprocess.run([python, "-I", "-S", "-c", limit, *command], text=True,
                              capture_output=True,
                              timeout=patience(120), env=environment(), **AS_A_USER)
    return run


@needs_bwrap
@pytest.mark.parametrize("script", [
    "open('{folder}/secret').read()", "os.listdir('{folder}/other')",
    "open('{folder}/model', 'w')", "open('/usr/x', 'w')", "open('/etc/passwd')",
    "os.listdir('/home')", "open('/dev/x', 'w')", "open('/x', 'w')",
    "assert any(b'TORCH_VULKAN_API_KEY' in open('/proc/%s/environ' % p, 'rb').read()"
    " for p in os.listdir('/proc') if p.isdigit())",
    "socket.create_connection(('127.0.0.1', {port}), 5)",
    "check(libc.mount(b'none', b'/tmp', b'tmpfs', 0, None))",
    "check(libc.unshare(0x10000000))", "check(libc.syscall(425, 8, bytes(120)))",
    "os.fork()", "subprocess.run(['/bin/true'])", "os.posix_spawn('/bin/true', ['true'], {{}})",
    "check(libc.syscall(435, bytes(64), 64))", "socket.socketpair()",
    "check(libc.shmget(0, 1 << 20, 0o1600))", "check(libc.msgget(0, 0o1600))",
    "check(libc.prctl(4, 0, 0, 0, 0))", "os.setuid(0)", "os.chown('{folder}/out', 0, 0)",
], ids=["file", "folder", "model", "system", "etc", "home", "dev", "top", "environment", "network",
        "mount", "namespace", "io_uring", "fork", "process", "spawn", "clone3", "socketpair",
        "shmget", "msgget", "dumpable", "setuid", "chown"])
def test_a_task_cannot(script, tmp_path, service, monkeypatch, boxed_run):
    monkeypatch.setenv("TORCH_VULKAN_API_KEY", service.key)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "other").mkdir()
    script = script.format(folder=tmp_path, port=service.url.rpartition(":")[2])
    done = boxed_run("import ctypes, os, socket, subprocess\n"
                     "libc = ctypes.CDLL(None, use_errno=True)\n"
                     "def check(result):\n"
                     "    if result < 0: raise OSError(ctypes.get_errno(), 'refused')\n"
                     f"print('tries', flush=True)\n{script}")
    assert done.returncode != 0 and done.stdout == "tries\n", (done.stdout, done.stderr)
    assert "Error" in done.stderr and "NameError" not in done.stderr, done.stderr
    assert (tmp_path / "model").read_bytes() == b"model"


@needs_bwrap
def test_a_task_can_read_the_model_and_write_to_its_folder(tmp_path, boxed_run):
    (tmp_path / "out" / "task.json").write_text("{}")
    (tmp_path / "out" / "task.json").chmod(0o604)
    done = boxed_run("import os, threading\n"
                     "open('copy', 'wb').write(open('../model', 'rb').read())\n"
                     "open('/tmp/x', 'w').write('x'); open('/dev/shm/x', 'w').write('x')\n"
                     "started = [threading.Thread(target=print, args=(i,)) for i in range(99)]\n"
                     "[one.start() for one in started]; [one.join() for one in started]\n"
                     "print(open('task.json').read(), os.listdir('/dev'))")
    assert done.returncode == 0 and "{}" in done.stdout, done.stderr
    assert (tmp_path / "out" / "copy").read_bytes() == b"model"


@needs_bwrap
def test_a_task_is_not_root_and_has_no_capabilities(boxed_run):
    done = boxed_run("import os; print(sum(os.getresuid()) > 0, "
                     "[line for line in open('/proc/self/status') if line[:6] in "
                     "('CapPrm', 'CapEff', 'CapAmb') and int(line.split()[1], 16)])")
    assert done.stdout == "True []\n", (done.stdout, done.stderr)


@needs_bwrap
def test_only_its_own_processes_are_seen(boxed_run):
    done = boxed_run("import os; print(sum(p.isdigit() for p in os.listdir('/proc')))")
    assert int(done.stdout) < 6


@needs_bwrap
@pytest.mark.parametrize("how", ["threads", "raw"])
def test_threads_end(boxed_run, how):
    """A fork bomb of threads; their limit is the task's, and its own."""
    start = {"threads": "threading.Thread(target=time.sleep, args=(3,), daemon=True).start()",
             "raw": "raw()"}[how]
    done = boxed_run(f"""
import ctypes, mmap, os, threading, time
libc = ctypes.CDLL(None, use_errno=True)
memory = mmap.mmap(-1, 1 << 20)
top = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + (1 << 19)
pause = ctypes.cast(libc.pause, ctypes.c_void_p)
def raw():  # no stacks of their own, all in pause()
    flags = 0x100 | 0x200 | 0x400 | 0x800 | 0x10000  # VM, FS, FILES, SIGHAND, THREAD
    if libc.clone(pause, ctypes.c_void_p(top - 4096 * (count % 64)), flags, None) < 0:
        raise RuntimeError(os.strerror(ctypes.get_errno()))
count = 0
try:
    while count < 50000:
        {start}
        count += 1
except RuntimeError as error:
    print(count, error, flush=True)
os._exit(0)
""")
    most = max(512, 4 * os.cpu_count())
    assert 50 < int(done.stdout.split()[0]) <= most, (done.stdout, done.stderr)


@needs_bwrap
@pytest.mark.parametrize("script, error", [
    ("bytearray(3 << 30)", "MemoryError"),
    ("open('/tmp/x', 'wb').write(bytes(3 << 29))", "No space left"),
    ("open('/dev/shm/x', 'wb').write(bytes(1 << 29))", "No space left"),
], ids=["private", "tmp", "shm"])
def test_memory_ends(boxed_run, script, error):
    done = boxed_run(script, Limits(memory_bytes=5 << 29))
    assert done.returncode != 0 and error in done.stderr, (done.stdout, done.stderr)


@pytest.mark.parametrize("kind", ["link", "folder", "fifo"])
def test_what_a_task_leaves_is_taken_only_if_it_is_a_file(tmp_path, kind):
    (tmp_path / "secret").write_text("secret")
    made = tmp_path / "engine.vke"
    {"link": lambda: made.symlink_to(tmp_path / "secret"), "folder": made.mkdir,
     "fifo": lambda: os.mkfifo(made)}[kind]()
    store = Store(tmp_path / "store")
    with pytest.raises(ValueError, match="no regular file"):
        store.take(made)
    assert [*store.unfinished.iterdir()] == []


@needs_bwrap
def test_data_of_the_service_is_not_shown(tmp_path):
    """Neither to tasks, nor to other users of a folder that is open to them."""
    within = Path(tv.__file__).parent / "service-data"
    done = subprocess.run([sys.executable, SCRIPT, "serve", "--data", within, "--port", "0"],
                          capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 1 and "tasks may read" in done.stderr and not within.exists()
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o755)
    service = Service(data).start()
    try:
        with service.client() as client:
            client.submit(layers([8, 5])[0], ["lavapipe"], name="a/net", job_id="a")
            assert client.wait("a", SECONDS)["state"] == "COMPLETED"
    finally:
        service.stop()
    assert data.stat().st_mode & 0o777 == 0o755, "it may be used by others, too"
    made = [*data.iterdir()]
    assert made and not [path for path in made if path.stat().st_mode & 0o077]


def ended(runner, run):
    runner.submit(run)
    return until(lambda: not (s := runner.status(run.id)).running and s, "its end")


MAPPED = """import ctypes, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
size = 1 << 22
for i in range(128):
    at = libc.mmap(None, size, 3, {flags}, -1, 0)
    assert at != 2 ** 64 - 1
    ctypes.memset(at, 1, size)
    {after}
time.sleep(100)
"""


@pytest.mark.parametrize("limit, script, says, again", [
    ({"memory_bytes": 1 << 30}, "bytearray(3 << 30)", "its log says more", True),
    ({"cpu_seconds": 1}, "while True: pass", "more than 1 s of the CPU", False),
    ({"seconds": 1}, "import time; time.sleep(100)", "longer than 1 s", False),
    ({"memory_bytes": 1 << 28}, MAPPED.format(flags=0x21, after=""), "bytes of memory", False),
    ({"memory_bytes": 1 << 28}, MAPPED.format(
        flags=0x22, after="libc.mprotect(ctypes.c_void_p(at), size, 1)"), "bytes of memory", False),
    ({"memory_bytes": 1 << 28}, MAPPED.format(flags=0x122, after=""), "bytes of memory", False),
    ({"memory_bytes": 1 << 28}, "import os, time; f = os.memfd_create('x')\n"
     "for i in range(512): os.write(f, bytes(1 << 20))\ntime.sleep(100)", "bytes of memory", False),
    ({"memory_bytes": 1 << 28}, "import ctypes, os, threading, time; f = os.memfd_create('x')\n"
     "def fill():\n"
     "    for i in range(512): os.write(f, bytes(1 << 20))\n"
     "    time.sleep(100)\n"
     # Not of `ulimit -s`, which may be as large as the limit.
     "threading.stack_size(1 << 20)\n"
     "threading.Thread(target=fill).start(); ctypes.CDLL(None).syscall(60, 0)", "bytes of memory",
     False),
    ({"output_bytes": 1 << 20}, "import os, time\n"
     "for i in range(200): open(str(i), 'wb').write(bytes(1 << 20))\ntime.sleep(100)", "wrote more",
     False),
    ({}, "import os, time\n"
     "for i in range(3000): os.mkdir('x'); os.chdir('x')\ntime.sleep(100)",
     "made more than", False),
    ({}, "import os; os.kill(os.getpid(), 9)", "signal 9", True),
], ids=["memory", "cpu", "seconds", "shared", "read-only", "stack", "memfd", "second thread",
        "disk", "files", "killed"])
def test_a_run_has_limits(tmp_path, monkeypatch, limit, script, says, again):
    monkeypatch.setattr(local_runner, "task_command", lambda *_: [PYTHON, "-c", script])
    runner = local_runner.LocalRunner(tmp_path, 1, Limits(**limit), None)
    (tmp_path / "model").touch()
    status = ended(runner, Run("1-1", 1, tmp_path / "model", "", {}))
    assert says in status.fault and status.again == again, runner.logs(1, 0).decode()
    assert ("MemoryError" in runner.logs(1, 0).decode()) == ("bytearray" in script)
    runner.forget("1-1")
    assert [*(tmp_path / "runs").iterdir()] == []


def built(tmp_path, client, model, limits):
    """What a build without a sandbox says of a model."""
    profile = next(d for d in client.devices() if d["name"] == "lavapipe")["profile"]
    runner = local_runner.LocalRunner(tmp_path, 1, limits, None)
    status = ended(runner, Run("1-1", 1, model, "", {"device": "lavapipe", "profile": profile,
                                                 "level": 0, "options": {}}))
    return json.loads((status.folder / "result.json").read_text())


def test_a_model_cannot_read_the_files_beside_it(tmp_path, client):
    """Other people's models lie there."""
    made = onnx.load_from_string(layers([8, 5])[0])
    onnx.save(made, tmp_path / "model", save_as_external_data=True, location="other",
              size_threshold=0)
    assert (tmp_path / "other").stat().st_size >= 8 * 5 * 4
    assert tv.onnx.compile(tmp_path / "model"), "it is a model that could be read"
    result = built(tmp_path, client, tmp_path / "model", Limits())
    assert result["state"] == "FAILED" and "external data" in result["reasons"][0].lower()


def test_an_engine_that_is_too_large_is_the_models_fault(tmp_path, client):
    model = tmp_path / "model"
    model.write_bytes(layers([8, 5])[0])
    result = built(tmp_path, client, model, Limits(output_bytes=10000))
    assert result["state"] == "FAILED" and "10000 bytes" in result["reasons"][0]
