"""The compile service on this machine: how soon it answers, and what it loses when it is killed.

    python benchmarks/service.py [--jobs 60] [--clients 8] [--kills 4] [--listed 10000] [--bound]

Prints times of the start, of `submit`, of a long list, and of tv.AutoModel with what its cache has;
the service's memory; and what became of jobs that clients submitted while the service and its tasks
were killed at random moments; the exit status is 1 if a job or a webhook is lost, wrong or there
twice, and with --bound, for a machine at rest, if a figure is above its bound. Give --no-sandbox
where bubblewrap is missing.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from workloads import service_load  # noqa: E402
from workloads.service_process import Service, layers  # noqa: E402


def latencies(service: Service, count: int) -> list[float]:
    """Seconds of each submit, model and job."""
    model, _ = layers([8, 5])
    times = []
    with service.client() as client:
        for i in range(count):
            start = time.perf_counter()
            client.submit(model, ["lavapipe"], name="bench", job_id=f"latency-{i}",
                          options={"optimization_level": 0})
            times.append(time.perf_counter() - start)
        for i in range(count):
            job = client.wait(f"latency-{i}", service_load.PATIENCE_S)
            assert job["state"] == "COMPLETED", job
    return sorted(times)


def loading(service: Service, folder: Path, count: int) -> tuple[float, float]:
    """Median seconds of loading the engine of `latencies`: by AutoModel, its signature and digest
    compared, and as a .vke file."""
    import torch_vulkan as tv

    def median(load) -> float:
        times = []
        for _ in range(count + 1):  # the first fills the cache
            start = time.perf_counter()
            load()
            times.append(time.perf_counter() - start)
        return statistics.median(times[1:])

    model = median(lambda: tv.AutoModel.from_pretrained(
        "bench", url=service.url, api_key=service.key, cache_dir=folder))
    (path,) = folder.glob("*/bench/*.vke")
    return model, median(lambda: tv.Engine.load(path))


def fill(service: Service, count: int) -> None:
    """Rows of jobs that have ended, put in behind the service's back."""
    import sqlite3

    with sqlite3.connect(service.folder / "service.db", timeout=60) as database:
        database.executemany(
            "INSERT INTO job (id, request_sha256, model, model_digest, options, key, "
            "trace, state, stop_asked, created, ended) VALUES (?, '', 'filler', 'sha256:0', '{}', "
            "'', '', 'STOPPED', 0, 0, 0)",
            [(f"filler-{i}",) for i in range(count)])


def listing(service: Service, count: int) -> float:
    """Seconds of a list of all jobs, as many at a time as there may be."""
    with service.client() as client:
        start = time.perf_counter()
        before, seen = None, 0
        while page := client.list(limit=10000, before=before):
            before, seen = page[-1]["number"], seen + len(page)
        assert seen >= count
        return time.perf_counter() - start


class Figures:
    """What was measured, each beside what it may be."""

    def __init__(self):
        self.above: list[str] = []

    def say(self, name: str, value: float, most: float, unit: str, more: str = "") -> None:
        line = f"{name}: {value:.{2 if unit == 's' else 0}f} {unit} of {most} at most{more}"
        print(line, flush=True)
        if value > most:
            self.above.append(line)


def memory_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("jobs", 60), ("clients", 8), ("kills", 4), ("listed", 10000), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--no-sandbox", action="store_true")
    parser.add_argument("--bound", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        service = Service(Path(name) / "data", *["--no-sandbox"][:args.no_sandbox],
                          *service_load.ARGUMENTS)
        start = time.perf_counter()
        service.start()
        figures = Figures()
        figures.say("start", time.perf_counter() - start, 2, "s")
        try:
            times = latencies(service, 20)
            figures.say("submit, p95", times[18] * 1e3, 50, "ms",
                        f", median {times[10] * 1e3:.0f} ms")
            times = loading(service, Path(name) / "cache", 20)
            figures.say("AutoModel from its cache beside loading a .vke file",
                        (times[0] - times[1]) * 1e3, 500, "ms", f", AutoModel "
                        f"{times[0] * 1e3:.0f} ms, .vke {times[1] * 1e3:.0f} ms")
            fill(service, args.listed)
            figures.say(f"list of {args.listed} jobs", min(
                listing(service, args.listed) for _ in range(5)) * 1e3, 100, "ms")
            load = service_load.Load(service, args.jobs, args.clients, args.seed)
            faults = load.killed(args.kills)
            print(f"{args.jobs} jobs, {args.kills} kills: {len(faults)} lost or wrong")
            figures.say("memory, at most, of the process that served last",
                        memory_mib(service.process.pid), 200, "MiB")
        finally:
            service.stop()
    print("\n".join(faults))
    return 1 if faults or args.bound and figures.above else 0


if __name__ == "__main__":
    sys.exit(main())
