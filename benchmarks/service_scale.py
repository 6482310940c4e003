"""What the compile service would do at the scale of the internet: measured costs of its parts, and
a simulation of many users with them.

    python benchmarks/service_scale.py [--rows 100000] [--requests 100000] [--seconds 20]

Measures on this machine, in a folder of its own: a row of the database and how long its queries and
transactions take with so many artefacts; a request through the service; a file of the store; the
scheduler's turn with as many waiting tasks. Then simulates, event by event, so many requests a
minute on the service as it is and on what would replace its parts, and computes what 10^6 models on
200 kinds of devices take. `--costs FILE` reads the costs instead of measuring (`--json FILE` writes
them).
"""

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from workloads.queueing import Simulation, Station, quantile  # noqa: E402
from workloads.service_process import SANDBOX, Service, layers  # noqa: E402

MODELS, KINDS = 1_000_000, 200
# Assumed: what users do, and what models are like.
MODEL_BYTES, ENGINE_CODE_BYTES = 100e6, 300e3
UNTUNED_S, TUNED_S, CACHED_TUNED_S = 3.0, 120.0, 10.0
DEVICES_OF_A_KIND = 5
MIX = {"look": 0.90, "download": 0.02, "poll": 0.07, "submit": 0.01}
_TEXT = '{"name": "a device", "driver": "%d", "features": "' + "x" * 800 + '"}'


def median_s(do, count: int) -> float:
    times = []
    for i in range(count):
        start = time.perf_counter()
        do(i)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def filled(folder: Path, rows: int):
    """A database with so many artefacts of jobs, and as many tasks that wait for their device."""
    from sqlmodel import insert

    from torch_vulkan._service.storage.database import Database
    from torch_vulkan._service.storage.tables import Artifact, Device, Job, Task

    database = Database(folder / "service.db")
    options = {"optimization_level": 3, "enabled_precisions": [], "workspace_size": 0, "inputs": {}}
    with database.writing() as session:
        for i in range(KINDS):
            session.add(Device(name=f"kind-{i}", description="", profile={},
                               runs_on=_TEXT % i, tuned_for=_TEXT % i))
    for first in range(0, rows, 10_000):
        numbers = range(first, min(first + 10_000, rows))
        with database.writing() as session:
            session.execute(insert(Job), [
                {"number": i + 1, "id": f"job-{i}", "request_sha256": "0" * 64,
                 "model": f"team/net-{i // 4}", "model_digest": f"sha256:{i:064x}",
                 "options": options, "key": "k", "trace": "", "state": "COMPLETED",
                 "stop_asked": False, "created": float(i), "ended": float(i)} for i in numbers])
            session.execute(insert(Task), [
                {"job": i + 1, "device": f"kind-{i % KINDS}", "level": 3, "later": True,
                 "state": "STARTING", "attempt": 0, "crashes": 0, "reasons": []} for i in numbers])
            session.execute(insert(Artifact), [
                {"model": f"team/net-{i // 4}", "model_digest": f"sha256:{i:064x}",
                 "device": f"kind-{i % KINDS}", "runs_on": _TEXT % (i % KINDS),
                 "tuned_for": _TEXT % (i % KINDS), "tuned": False, "level": 0, "options": options,
                 "engine_digest": f"sha256:{i:064x}", "engine_key": "0" * 64, "size_bytes": 1,
                 "manifest_digest": f"sha256:{i:064x}", "created": float(i)} for i in numbers])
    return database


class _Nothing:
    """A runner whose devices are busy."""

    slots = 1

    def tuners(self):
        return {_TEXT % i: 1 for i in range(4)}


def database_costs(folder: Path, rows: int) -> dict:
    from torch_vulkan._service.jobs import artifacts, jobs
    from torch_vulkan._service.jobs.scheduler import Scheduler
    from torch_vulkan._service.messages.requests import JobRequest
    from torch_vulkan._service.running.timings import Timings
    from torch_vulkan._service.storage import signing
    from torch_vulkan._service.storage.store import Store

    database, store = filled(folder, rows), Store(folder / "store")
    digest = store.put(b"model")
    bytes_a_row = (folder / "service.db").stat().st_size / rows
    asker = jobs.Asker("k", rows * 2)

    def submit(i):
        jobs.submit(database, store, JobRequest(
            job_id=f"new-{i}", model="team/new", model_digest=digest, devices=["kind-7"]), asker)

    found = {
        "row_bytes": bytes_a_row,
        "look_s": median_s(lambda i: artifacts.listed(
            database, f"team/net-{i % max(rows // 4, 1)}", _TEXT % (i % KINDS), 1000), 100),
        "submit_s": median_s(submit, 50),
        "put_s": median_s(lambda i: store.put(b"%d" % i), 50),
    }
    made = Scheduler(database, store, _Nothing(), signing.Signer(folder / "key"),
                     Timings(folder / "timings"))
    found["turn_s"] = median_s(lambda _: made._waiting(), 5)
    found["defer_s"] = median_s(lambda _: made._defer(), 5)
    start = time.perf_counter()
    listed = sum(1 for _ in store.files())
    found["listed_file_s"] = (time.perf_counter() - start) / listed
    database.close()
    return found


def request_costs(folder: Path, seconds: float = 5, clients: int = 8) -> dict:
    """Seconds of the service's processor that a request takes: many clients ask at once."""
    service = Service(folder / "data", *SANDBOX, "--rate", "0").start()
    try:
        with service.client() as client:
            model = layers([8, 5])[0]
            job = client.submit(model, ["lavapipe"], name="scale/net",
                                options={"optimization_level": 0})
            client.wait(job["id"], 120)
            runs_on = client.artifacts("scale/net")[0]["runs_on"]
        costs = {}
        for name, ask in (("look", lambda c: c.artifacts("scale/net", runs_on)),
                          ("poll", lambda c: c.details(job["id"]))):
            counts, end = [0] * clients, time.monotonic() + seconds

            def many(i, ask=ask, counts=counts, end=end):
                with service.client() as client:
                    while time.monotonic() < end:
                        ask(client)
                        counts[i] += 1

            before = _cpu_s(service.process.pid)
            threads = [threading.Thread(target=many, args=(i,)) for i in range(clients)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            costs[f"http_{name}_s"] = (_cpu_s(service.process.pid) - before) / sum(counts)
        return costs
    finally:
        service.stop()


def _cpu_s(pid: int) -> float:
    import os

    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def near(mean: float):
    """Times that spread as those of real servers do: half fixed, half exponential."""
    return lambda draw: mean / 2 + draw.expovariate(2 / mean)


def simulated(costs: dict, per_minute: float, seconds: float, processes: int, writers: int) -> dict:
    """The service with so many processes that answer, and databases that are written."""
    api = Station("processes that answer", processes, near(costs["http_look_s"]))
    database = Station("writers of the database", writers, near(costs["submit_s"]))
    made = Simulation(seconds)
    for kind, share in MIX.items():
        path = [api, database] if kind == "submit" else [api]
        made.come(kind, share * per_minute / 60, lambda _draw, path=path: path)
    made.run()
    return {"seconds": seconds, "kinds": made.totals, "stations": [api, database]}


def show_simulated(title: str, found: dict) -> None:
    print(f"\n{title}")
    for station in found["stations"]:
        print(f"  {station.name} ({station.servers}): "
              f"{100 * station.utilisation(found['seconds']):.0f} % busy, longest queue "
              f"{station.longest}")
    for kind, times in found["kinds"].items():
        print(f"  {kind}: {len(times)} answered, median {1e3 * quantile(times, .5):.1f} ms, "
              f"p99 {1e3 * quantile(times, .99):.1f} ms")


def tuning(share_asked: float, hits: float) -> tuple[float, float]:
    """Years of one device, and days of a fleet: so many of all pairs are asked for, and so many of
    their layers' times are known."""
    each = hits * CACHED_TUNED_S + (1 - hits) * TUNED_S
    seconds = MODELS * KINDS * share_asked * each
    return seconds / (365 * 86400), seconds / (KINDS * DEVICES_OF_A_KIND * 86400)


def show_sizes(costs: dict) -> None:
    pairs = MODELS * KINDS
    whole = 2 * pairs * (MODEL_BYTES + ENGINE_CODE_BYTES)
    apart = MODELS * MODEL_BYTES + 2 * pairs * ENGINE_CODE_BYTES
    print(f"\n10^6 models x {KINDS} kinds of devices, two engines each")
    print(f"  store, weights in each engine: {whole / 1e15:.0f} PB; weights once: "
          f"{apart / 1e15:.2f} PB; without pairs that nobody asks for (2 %): "
          f"{(MODELS * MODEL_BYTES + .04 * pairs * ENGINE_CODE_BYTES) / 1e15:.2f} PB")
    print(f"  database: {2 * pairs * costs['row_bytes'] / 1e12:.1f} TB at "
          f"{costs['row_bytes']:.0f} bytes an artefact with its job and task")
    print(f"  listing the store for gc: {2 * 2 * pairs * costs['listed_file_s'] / 3600:.1f} h")
    for asked, hits in ((1, 0), (1, .9), (.02, .9)):
        years, days = tuning(asked, hits)
        print(f"  tuning {100 * asked:.0f} % of pairs, {100 * hits:.0f} % of times known: "
              f"{years:.0f} years of one device, {days:.1f} days of {DEVICES_OF_A_KIND} of each")
    print(f"  untuned engines: {pairs * UNTUNED_S / 86400 / 1000:.0f} days of 1,000 cores")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--requests", type=float, default=100_000, help="a minute")
    parser.add_argument("--seconds", type=float, default=20, help="that are simulated")
    parser.add_argument("--costs", type=Path)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if args.costs:
        costs = json.loads(args.costs.read_text())
    else:
        with tempfile.TemporaryDirectory() as name:
            costs = database_costs(Path(name), args.rows) | request_costs(Path(name))
    if args.json:
        args.json.write_text(json.dumps(costs))
    print("measured")
    for name, value in costs.items():
        print(f"  {name}: {value:.0f}" if name.endswith("bytes") else
              f"  {name}: {1e3 * value:.3f} ms")
    per_minute, most = args.requests, 60 / costs["http_look_s"]
    print(f"  one process answers {most:.0f} requests a minute")
    show_simulated(f"as it is: one process, SQLite; {per_minute:.0f} requests a minute",
                   simulated(costs, per_minute, args.seconds, 1, 1))
    enough = int(per_minute / most / .6) + 1  # 60 % busy
    show_simulated(f"{enough} processes that answer, one writer",
                   simulated(costs, per_minute, args.seconds, enough, 1))
    for factor in (10, 100):
        writes = per_minute * factor * MIX["submit"] / 60 * costs["submit_s"]
        print(f"\n{factor} times as many requests: {int(per_minute * factor / most / .6) + 1} "
              f"processes; the one writer is {100 * writes:.0f} % busy")
    show_sizes(costs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
