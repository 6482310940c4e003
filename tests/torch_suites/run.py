"""torch's own tests of compiled backends, against "vulkan": python tests/torch_suites/run.py
--results DIR --seconds 600.

The tests are of torch 2.6. A case that fails is run with aot_eager, too; what fails there as well,
as what asks of inductor's code alone, does not count. `--write` adds such cases of a run that left
nothing to a list, aot_eager.txt: they are left out then, and another that fails with aot_eager
counts, with the versions of torch that the list was written with.

Cases come in an order by the seed, each file for its share of the time. Results are those of one
build: DIR has a folder for each. A run that is stopped goes on from its results, and says how many
cases are left. A case that ends its process, or takes more than LIMIT, is a crash, and the others
go on. What is in known.txt, with its reason, is allowed to fail. A file of which no case runs is a
failure.
"""

import argparse
import collections
import faulthandler
import hashlib
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
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")  # else C++ is compiled to find it out

from fetch import tests

FILES = ("functorch/test_aotdispatch.py", "dynamo/test_repros.py", "dynamo/test_subclasses.py",
         "dynamo/test_functions.py", "dynamo/test_misc.py", "dynamo/test_unspec.py",
         "inductor/test_torchinductor.py", "inductor/test_torchinductor_dynamic_shapes.py")
LIMIT = 120  # seconds for a case
STARTED, ELSEWHERE = "started", "aot_eager"
FAILED = ("wrong", "error", "crash", ELSEWHERE)
HERE = Path(__file__).parent
KNOWN = HERE / "known.txt"  # a case, and why it may fail
LISTED = HERE / "aot_eager.txt"  # cases that aot_eager fails, by file, with their number
WRITTEN_WITH = "# With "
PACKAGE = HERE.parents[1] / "python" / "torch_vulkan"
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
    parser.add_argument("--write", action="store_true",
                        help="adds to aot_eager.txt what its results say")
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
    listed = fails_elsewhere()
    return [c for c in found
            if c.id() not in listed and not any(word in c.id() for word in LEFT_OUT)]


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
    _total(results).write_text(str(len(share)))
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
                status = ELSEWHERE
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


def _lines(path: Path) -> list[str]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [line for line in lines if line and not line.startswith("#")]


def known() -> dict[str, str]:
    """Case → why it may fail."""
    return dict(line.split(None, 1) for line in _lines(KNOWN))


def fails_elsewhere() -> set[str]:
    """Cases that aot_eager fails, too; none while `--write` is to find them."""
    return set() if "TV_TORCH_SUITES_ALL" in os.environ else set(_lines(LISTED))


def this_torch() -> str:
    """What decides which cases aot_eager fails."""
    import torch

    version = ".".join(torch.__version__.split(".")[:2])
    return f"torch {version}, {'CUDA' if torch.cuda.is_available() else 'CPU'}"


def versions_listed() -> set[str]:
    """What the list was written with, each as `this_torch` says it."""
    lines = LISTED.read_text().splitlines() if LISTED.exists() else []
    return {line.removeprefix(WRITTEN_WITH) for line in lines if line.startswith(WRITTEN_WITH)}


def build_digest() -> str:
    """What tells this build from others: of the package's modules and libraries."""
    digest = hashlib.sha256()
    for path in sorted(p for p in PACKAGE.rglob("*") if p.suffix in (".py", ".so")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def run(options) -> int:
    """All files, each for its share of the time; prints counts and what failed."""
    options.results.mkdir(parents=True, exist_ok=True)
    end, failed, empty = time.monotonic() + options.seconds, [], []
    # Without a list of this version's, nobody knows which cases are new.
    counts_there = "TV_TORCH_SUITES_ALL" not in os.environ and this_torch() in versions_listed()
    print(f"seed {options.seed}")
    for i, file in enumerate(options.files):
        until = time.monotonic() + (end - time.monotonic()) / (len(options.files) - i)
        with ThreadPoolExecutor(options.workers) as pool:
            list(pool.map(partial(_watch, options, file, until), range(options.workers)))
        records, left = results_of(options, file)
        counts = collections.Counter(r["status"] for r in records)
        if not records:
            empty.append(file)
        print(f"{file}: {dict(counts)}, {left} left" +
              ("" if records else f" (nothing ran: {_results(options, file, 0)}.log)"), flush=True)
        failed += [r for r in records if r["status"] in FAILED
                   and (r["status"] != ELSEWHERE or counts_there)]
    allowed = known()
    for record in failed:
        why = allowed.get(record["case"])
        print(f"{record['status']}: {record['case']}: {why or record['reason'][-300:]}")
    return bool(empty) or any(r["case"] not in allowed for r in failed)


def results_of(options, file: str) -> tuple[list[dict], int]:
    """A file's results so far, and how many of its cases have none."""
    paths, listed = [_results(options, file, n) for n in range(options.workers)], fails_elsewhere()
    records = [r for path in paths for r in read(path) if r["case"] not in listed]
    totals = [int(_total(path).read_text()) for path in paths if _total(path).exists()]
    return records, sum(totals) - len(records)


def write(options) -> int:
    """Adds to aot_eager.txt what results say that were made without it."""
    listed = _lines(LISTED)
    text = "# Cases of torch 2.6 that aot_eager fails, too: run.py --write adds to this.\n"
    for version in sorted(versions_listed() | {this_torch()}):
        text += f"{WRITTEN_WITH}{version}\n"
    for file in options.files:
        records, left = results_of(options, file)
        if left or not records:
            sys.exit(f"{file}: {left} cases are left: run it to its end, with "
                     "TV_TORCH_SUITES_ALL=1, and with the same number of workers")
        of_file = [case for case in listed if case.startswith(f"{Path(file).stem}.")]
        cases = sorted({r["case"] for r in records if r["status"] == ELSEWHERE}.union(of_file))
        text += f"\n# {file}: {len(cases)} of {len(records)}\n" + "".join(c + "\n" for c in cases)
    LISTED.write_text(text)
    return 0


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


def _total(results: Path) -> Path:
    """The file that holds how many cases a worker has."""
    return results.with_suffix(".total")


def _results(options, file: str, worker: int) -> Path:
    part = f".{worker}" if options.workers > 1 else ""
    return options.results / (file.replace("/", "_") + part + ".jsonl")


def one(options) -> int:
    """--case file.py/Class/test: with either backend."""
    os.environ["TV_TORCH_SUITES_ALL"] = "1"
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
    options.results /= build_digest()
    if options.write:
        return write(options)
    return one(options) if options.case else run(options)


if __name__ == "__main__":
    sys.exit(main())
