"""Puts the service together from its command line."""

import logging
import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from .jobs.artifacts import Publisher
from .jobs.retention import Collector, Keep
from .jobs.scheduler import Scheduler
from .jobs.sender import Policy, Sender
from .observe import Audit, Metrics
from .parts import Parts
from .rate import RateLimit
from .running import devices
from .running.local_runner import LocalRunner
from .running.sandbox import Limits
from .running.timings import Timings
from .storage import keys, private_file, remote_store
from .storage.database import Database
from .storage.quotas import Quotas
from .storage.signing import Signer
from .storage.store import Store
from .storage.tables import Job, State, Task
from .traces import NoTraces, Traces

log = logging.getLogger("torch_vulkan.service")


def assembled(args, bwrap: str | None) -> Parts:
    """`args`: what server.add_arguments parsed; nothing is started."""
    data = args.data.resolve()
    database = Database(args.database or data / "service.db")
    _first_key(database, data / "admin.key")
    log.info("devices here: %s", ", ".join(devices.refresh(database)) or "none")
    store = (remote_store.opened(args.store, data / "copies", args.store_copies) if args.store
             else Store(data / "store"))
    limits = Limits(args.task_memory_bytes, args.task_cpu_seconds, args.task_seconds,
                    args.task_output_bytes)
    runner = _runner(args, limits, bwrap, database, store.url)
    signer = Signer(data / "signing.key")
    metrics = Metrics(database, store)
    timings = Timings(data / "timings")
    traces = Traces(args.traces) if args.traces else NoTraces()

    def ended(task: Task, job: Job, seconds: tuple[float, float]) -> None:
        metrics.task(task.state, seconds[1] - seconds[0])
        traces.past("task", job.trace, seconds, {
            "job": job.id, "device": task.device, "level": task.level, "state": str(task.state),
            "attempt": task.attempt}, task.state == State.FAILED)

    scheduler = Scheduler(database, store, runner, signer, timings, ended)
    sender = Sender(database, private_file.kept(data / "webhook.key", lambda: os.urandom(32)),
                    Policy(args.webhook_delay, args.webhook_attempts,
                           allow_private=args.webhook_private))
    threads = [scheduler, sender]
    if args.keep_jobs is not None or args.keep_engines is not None:
        threads.append(Collector(database, store, runner, Keep(args.keep_jobs, args.keep_engines)))
    return Parts(
        database, store, runner, scheduler, sender, signer,
        Publisher(database, store, signer, bwrap), timings, RateLimit(args.rate, args.burst),
        Quotas(args.key_bytes, args.free_bytes), metrics, Audit(data / "audit.jsonl"), traces,
        threads, _version(), args.max_upload, args.most_waiting)


def _runner(args, limits: Limits, bwrap: str | None, database: Database, store: str):
    data = args.data.resolve()
    if args.runner == "local":
        return LocalRunner(data, args.tasks, limits, bwrap, devices.kinds(database, here=True))
    from .running.ray_runner import Cluster, RayRunner

    cluster = Cluster(args.ray_address, os.environ.get("RAY_AUTH_TOKEN", ""), store,
                      not args.no_sandbox, args.ray_command)
    return RayRunner(data, args.tasks, limits, cluster, lambda: devices.kinds(database))


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
