"""Starts the service."""

import argparse
import fcntl
import ipaddress
import logging
import os
import secrets
import signal
import sys
from pathlib import Path

from .errors import ServiceError, package
from .sandbox import Limits, bubblewrap, why_not

log = logging.getLogger("torch_vulkan.service")
PORT = 8600


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True,
                        help="the folder of the database, the store and the logs; made if missing")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--port", type=int, default=PORT, help="0: any that is free")
    parser.add_argument("--tasks", type=int, default=1, help="tasks that run at the same time")
    parser.add_argument("--no-sandbox", action="store_true",
                        help="run tasks without bubblewrap: for models that you trust")
    parser.add_argument("--max-upload", type=int, default=2 << 30, metavar="BYTES")
    for name, text in (("memory_bytes", "private memory"), ("cpu_seconds", "time of all threads"),
                       ("seconds", "time from start to end"), ("output_bytes", "largest file")):
        parser.add_argument(f"--task-{name.replace('_', '-')}", type=int, dest=f"task_{name}",
                            default=getattr(Limits, name), metavar="N",
                            help=f"limit of a task: {text}")
    parser.set_defaults(run=serve)


def serve(args) -> int:
    """Runs until it is asked to end. Returns 1, with a message, where it cannot start."""
    for name in ("fastapi", "uvicorn", "sqlmodel"):
        package(name)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s",
                        stream=sys.stderr)
    bwrap = None
    if not args.no_sandbox:
        bwrap = bubblewrap()
        if reason := why_not(bwrap):
            raise ServiceError(0, "no_sandbox", f"tasks cannot be run in a sandbox: {reason}", [
                "--no-sandbox runs them without one: do that for models that you trust"])
    elif not ipaddress.ip_address(args.host).is_loopback:
        log.warning("--no-sandbox on %s: whoever may submit a model may attack this machine with "
                    "it", args.host)
    args.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _locked(args.data):
        _run(args, bwrap)
    return 0


def _locked(folder: Path):
    file = open(folder / "lock", "w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ServiceError(0, "in_use", f"another service uses {folder}") from None
    return file


def _run(args, bwrap: str | None) -> None:
    from .app import make_app

    parts = _parts(args, bwrap)
    socket = _socket(args.host, args.port)
    host, port = socket.getsockname()[:2]
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))  # after uvicorn's own, which raises it again
    try:
        parts.scheduler.start()
        print(f"listening on http://{f'[{host}]' if ':' in host else host}:{port}", flush=True)
        _server(make_app(parts), parts).run(sockets=[socket])
    finally:
        parts.closing.set()
        parts.scheduler.stop()
        parts.runner.close()
        parts.database.close()


def _parts(args, bwrap: str | None):
    from . import devices
    from .database import Database
    from .local_runner import LocalRunner
    from .parts import Parts
    from .scheduler import Scheduler
    from .store import Store

    database = Database(args.data / "service.db")
    _first_key(database, args.data / "admin.key")
    log.info("devices here: %s", ", ".join(devices.refresh(database)) or "none")
    store = Store(args.data / "store")
    limits = Limits(args.task_memory_bytes, args.task_cpu_seconds, args.task_seconds,
                    args.task_output_bytes)
    runner = LocalRunner(args.data.resolve(), args.tasks, limits, bwrap)
    return Parts(database, store, runner, Scheduler(database, store, runner), _version(),
                 args.max_upload)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("torch-vulkan")
    except PackageNotFoundError:  # run from the source tree
        return "unknown"


def _first_key(database, path: Path) -> None:
    """The first start makes a key that may do everything: the file is there before the key is."""
    from . import keys

    if keys.listed(database):
        return
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    row, key = keys.made("first", ["admin"])
    with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(key + "\n")
    os.replace(unfinished, path)
    keys.add(database, row)
    log.info("the first key, which may do everything, is in %s", path)


def _socket(host: str, port: int):
    import socket

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Where TCP is named, asyncio turns Nagle's algorithm off, which delays answers by 40 ms.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(512)  # connections wait from now on
    except OSError as error:
        raise ServiceError(0, "no_port", f"cannot listen on {host}:{port}: "
                                         f"{error.strerror}") from None
    return made


def _server(app, parts):
    import uvicorn

    class Server(uvicorn.Server):
        def handle_exit(self, sig, frame):
            parts.closing.set()
            super().handle_exit(sig, frame)

    return Server(uvicorn.Config(app, log_level="warning", access_log=False,
                                 timeout_graceful_shutdown=5, server_header=False))
