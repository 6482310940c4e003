"""Puts the service together from its command line."""

import logging
import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from . import devices, keys, private_file
from .artifacts import Publisher
from .database import Database
from .local_runner import LocalRunner
from .observe import Audit, Metrics
from .parts import Parts
from .rate import RateLimit
from .retention import Collector, Keep
from .sandbox import Limits
from .scheduler import Scheduler
from .sender import Policy, Sender
from .signing import Signer
from .store import Store

log = logging.getLogger("torch_vulkan.service")


def assembled(args, bwrap: str | None) -> Parts:
    """`args`: what server.add_arguments parsed; nothing is started."""
    data = args.data.resolve()
    database = Database(data / "service.db")
    _first_key(database, data / "admin.key")
    log.info("devices here: %s", ", ".join(devices.refresh(database)) or "none")
    store = Store(data / "store")
    limits = Limits(args.task_memory_bytes, args.task_cpu_seconds, args.task_seconds,
                    args.task_output_bytes)
    runner = LocalRunner(data, args.tasks, limits, bwrap)
    signer = Signer(data / "signing.key")
    metrics = Metrics(database, store)
    scheduler = Scheduler(database, store, runner, signer, metrics.task)
    sender = Sender(database, private_file.kept(data / "webhook.key", lambda: os.urandom(32)),
                    Policy(args.webhook_delay, args.webhook_attempts,
                           allow_private=args.webhook_private))
    threads = [scheduler, sender]
    if args.keep_jobs is not None or args.keep_engines is not None:
        threads.append(Collector(database, store, runner, Keep(args.keep_jobs, args.keep_engines)))
    return Parts(database, store, runner, scheduler, sender, signer,
                 Publisher(database, store, signer, bwrap), RateLimit(args.rate, args.burst),
                 metrics, Audit(data / "audit.jsonl"), threads, _version(), args.max_upload,
                 args.most_waiting)


def _version() -> str:
    try:
        return version("torch-vulkan")
    except PackageNotFoundError:  # run from the source tree
        return "unknown"


def _first_key(database: Database, path: Path) -> None:
    """The first start makes a key that may do everything: the file is there before the key is."""
    if keys.listed(database):
        return
    row, key = keys.made("first", ["admin"])
    private_file.write(path, f"{key}\n".encode())
    keys.add(database, row)
    log.info("the first key, which may do everything, is in %s", path)
