"""torch's own tests of compiled backends, against "vulkan": python tests/torch_suites/run.py
--results DIR --seconds 600.

The tests are of torch 2.6. Where one fails, aot_eager is asked: what that fails, too,
as what asks of inductor's code alone, does not count. Cases come in an order by the seed, each file
for its share of the time; a run that is stopped goes on from its results. A case that ends its
process, or takes more than LIMIT, is a crash, and the others go on. What is in known.txt, with its
reason, is allowed to fail.
"""

import argparse
import collections
import faulthandler
import importlib
import json
import os
import random
import subprocess
import sys
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

os.environ.setdefault("TORCH_VULKAN_OPTIMIZATION_LEVEL", "0")

from fetch import tests

FILES = ("functorch/test_aotdispatch.py", "dynamo/test_repros.py", "dynamo/test_subclasses.py",
         "dynamo/test_functions.py", "dynamo/test_misc.py", "dynamo/test_unspec.py",
         "inductor/test_torchinductor.py", "inductor/test_torchinductor_dynamic_shapes.py")
LIMIT = 120  # seconds for a case
STARTED = "started"
KNOWN = Path(__file__).parent / "known.txt"
# Thousands of cases of operators one by one, which tests/opinfo has; GPUs; AOTInductor.
LEFT_OUT = ("TestEagerFusionOpInfo", "TestEagerFusionModuleInfo", "GPU", "CUDA", "Triton",
            "aoti_eager")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", default=str(int(time.time())))
    parser.add_argument("--files", nargs="*", default=FILES)
    parser.add_argument("--case", help="one case, with its error")
    parser.add_argument("--workers", type=int, default=1, help="processes, each with its share of "
                        "a file's cases; go on with the same number")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--worker", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


def cases(suite) -> list[unittest.TestCase]:
    """The cases of a suite of suites."""
    if isinstance(suite, unittest.TestCase):
        return [suite]
    return [case for part in suite for case in cases(part)]


def load(file: str) -> list[unittest.TestCase]:
    """Imports a test file, adapted; its cases."""
    import adapt

    root = tests()
    adapt.install()
    folder, name = file.removesuffix(".py").split("/")
    sys.path[:0] = [str(root / folder), str(root)]
    sys.argv = [file]
    module = importlib.import_module(name)
    for loaded in [m for n, m in sys.modules.items() if n.startswith("test_")]:
        adapt.adapt_module(loaded)
    found = cases(unittest.defaultTestLoader.loadTestsFromModule(module))
    return [c for c in found if not any(word in c.id() for word in LEFT_OUT)]


def outcome(case: unittest.TestCase, backend: str) -> tuple[str, str]:
    """("pass", "wrong", "error" or "skip", why)."""
    import adapt
    import torch

    adapt.use(backend)
    torch._dynamo.reset()
    torch.manual_seed(0)
    result = unittest.TestResult()
    type(case)(case._testMethodName).run(result)
    if result.skipped or result.expectedFailures or result.unexpectedSuccesses:
        return "skip", ""
    for _, trace in (*result.failures, *result.errors):
        trace = trace.split("\n\nTo execute this test")[0]  # torch's own advice
        return ("wrong" if "AssertionError" in trace else "error"), trace[-1500:]
    return "pass", ""


def work(options) -> None:
    """A worker's share of one file's cases, here and now, as lines of JSON."""
    import torch

    torch.set_num_threads(1)
    results = _results(options, options.work, options.worker)
    done = {r["case"] for r in read(results) if r["status"] != STARTED}
    share = load(options.work)[options.worker::options.workers]
    found = [c for c in share if c.id() not in done]
    random.Random(options.seed).shuffle(found)
    end = time.monotonic() + options.seconds
    with results.open("a") as file:
        def note(**record):
            file.write(json.dumps(record) + "\n")
            file.flush()
        for case in found:
            if time.monotonic() > end:
                return
            note(case=case.id(), status=STARTED, reason="the process ended")
            faulthandler.dump_traceback_later(LIMIT, exit=True)
            status, reason = outcome(case, "vulkan")
            if status in ("wrong", "error") and outcome(case, "aot_eager")[0] != "pass":
                status = "aot_eager"
            faulthandler.cancel_dump_traceback_later()
            note(case=case.id(), status=status, reason=reason)


def read(path: Path) -> list[dict]:
    """The last record of each case."""
    if not path.exists():
        return []
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [*{r["case"]: r for r in records}.values()]


def _note_crash(path: Path) -> None:
    """The case that was running when its process ended."""
    crashed = [r for r in read(path) if r["status"] == STARTED]
    with path.open("a") as file:
        file.writelines(json.dumps({**r, "status": "crash"}) + "\n" for r in crashed)


def known() -> dict[str, str]:
    """Case → why it may fail."""
    lines = KNOWN.read_text().splitlines() if KNOWN.exists() else []
    return dict(line.split(None, 1) for line in lines if line and not line.startswith("#"))


def run(options) -> int:
    """All files, each for its share of the time; prints counts and what failed."""
    options.results.mkdir(parents=True, exist_ok=True)
    end, failed = time.monotonic() + options.seconds, []
    print(f"seed {options.seed}")
    for i, file in enumerate(options.files):
        until = time.monotonic() + (end - time.monotonic()) / (len(options.files) - i)
        with ThreadPoolExecutor(options.workers) as pool:
            list(pool.map(partial(_watch, options, file, until), range(options.workers)))
        records = [r for n in range(options.workers) for r in read(_results(options, file, n))]
        counts = collections.Counter(r["status"] for r in records)
        print(f"{file}: {dict(counts)}" +
              ("" if records else f" (nothing ran: {_results(options, file, 0)}.log)"), flush=True)
        failed += [r for r in records if r["status"] in ("wrong", "error", "crash")]
    allowed = known()
    for record in failed:
        why = allowed.get(record["case"])
        print(f"{record['status']}: {record['case']}: {why or record['reason'][-300:]}")
    return any(r["case"] not in allowed for r in failed)


def _watch(options, file: str, until: float, worker: int) -> None:
    """Starts a worker again when a case ended it, as long as there is time and it gets on."""
    results = _results(options, file, worker)
    while time.monotonic() < until:
        command = [sys.executable, __file__, "--work", file, "--results", options.results,
                   "--seed", options.seed, "--seconds", str(until - time.monotonic()),
                   "--workers", str(options.workers), "--worker", str(worker)]
        before = len(read(results))
        with open(f"{results}.log", "a") as out:
            status = subprocess.run(command, stdout=out, stderr=out, check=False).returncode
        _note_crash(results)
        if status == 0 or len(read(results)) == before:
            break


def _results(options, file: str, worker: int) -> Path:
    part = f".{worker}" if options.workers > 1 else ""
    return options.results / (file.replace("/", "_") + part + ".jsonl")


def one(options) -> int:
    """--case file.py/Class/test: with either backend."""
    file, _, rest = options.case.partition(".py/")
    (case,) = [c for c in load(f"{file}.py") if c.id().endswith(rest.replace("/", "."))]
    for backend in ("aot_eager", "vulkan"):
        print(backend, *outcome(case, backend))
    return 0


def main() -> int:
    options = arguments()
    options.results = options.results.absolute()
    if options.work:
        work(options)
        return 0
    return one(options) if options.case else run(options)


if __name__ == "__main__":
    sys.exit(main())
