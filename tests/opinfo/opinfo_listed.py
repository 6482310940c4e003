"""What of op_db is not wholly in engines: outside_engines.txt, which tests hold exactly. It is
about one sample of each entry at each dtype, and of its gradient, and some at float32
(`of_the_list`); what it leaves out of these is wholly in engines.

    python tests/opinfo/opinfo_listed.py --write [--entries REGEX]

plans them anew, all of them in ten minutes of one core: no engine is built, no device needed.
"""

import argparse
import concurrent.futures
import functools
import multiprocessing
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

os.environ.setdefault("TORCH_VULKAN_OPTIMIZATION_LEVEL", "0")
sys.path.insert(1, str(Path(__file__).resolve().parents[1]))  # denormals

import torch
from opinfo_run import Outcome, calm, plan
from opinfo_samples import Pair, chosen, pairs, samples

LIST = Path(__file__).parent / "outside_engines.txt"
VERSION = torch.__version__.split("+")[0]
SAMPLES_OF_FLOAT32 = 4
# CPU drivers end a loop early (DeviceProfile::max_loop_iterations); the list is planned for a GPU.
_OF_THE_DEVICE = re.compile(r"\b\d+ loop iterations; .* makes \d+$")


def of_the_list(pair: Pair, count: int) -> list[int]:
    """Which of a pair's samples the list is about."""
    several = pair.dtype == torch.float32 and not pair.gradient
    return chosen(pair, count, SAMPLES_OF_FLOAT32 if several else 1)


@functools.cache
def _listed() -> dict[str, dict[int, str]]:
    """A pair's name → number → kind."""
    found: dict[str, dict[int, str]] = {}
    for entry, kind, pairs_of, _ in _rows():
        for dtype, numbers in pairs_of.items():
            found.setdefault(f"{entry}/{dtype}", {}).update(dict.fromkeys(numbers, kind))
    return found


def _rows() -> list[tuple[str, str, dict[str, set[int]], str]]:
    """The lines of the file: entry, kind, dtype → numbers, reason."""
    rows = []
    for line in LIST.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        facts, _, reason = line.partition(" | ")
        entry, kind, *where = facts.split()
        rows.append((entry, kind, {dtype: _numbers(numbers) for dtype, numbers in
                                   (text.split(":") for text in where)}, reason))
    return rows


def listed_version() -> str:
    """The version of torch whose samples the file has."""
    return re.search(r"torch (\S+)'s", LIST.read_text())[1]


def listed(pair: Pair, number: int) -> str:
    """The kind of outcome of a sample that the list is about (opinfo_run.Outcome)."""
    return _listed().get(pair.name, {}).get(number, "engine")


def difference(pair: Pair, number: int, count: int, outcome: Outcome) -> str:
    """Why an outcome is not what the list says, or ""; of other versions of torch none is."""
    if listed_version() != VERSION or number not in of_the_list(pair, count):
        return ""
    wanted = listed(pair, number)
    if outcome.kind == wanted or outcome.reason.startswith("capture: AOTAutograd by itself"):
        return ""
    if wanted == "engine" and _OF_THE_DEVICE.search(outcome.reason):
        return ""
    return f"{pair.name}/{number}: {outcome.kind}, listed as {wanted}: {outcome.reason[:200]}"


def _numbers(text: str) -> set[int]:
    """Of "0-3,7"."""
    found = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def _text(numbers: Iterable[int]) -> str:
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def outcomes(pair: Pair) -> dict[int, Outcome]:
    """number → outcome of those that the list is about, planned."""
    inputs = samples(pair)
    return {number: plan(pair, inputs[number]) for number in of_the_list(pair, len(inputs))}


def rows_of(found: dict[str, dict[int, Outcome]]):
    """The lines of the file for an entry: outcomes by "dtype" or "dtype/grad"."""
    by_kind: dict[str, dict[str, set[int]]] = {}
    reasons: dict[str, str] = {}
    for dtype, of_dtype in found.items():
        for number, outcome in of_dtype.items():
            assert outcome.kind != "crash", f"{dtype}/{number}: {outcome.reason}"
            if outcome.kind != "engine":
                by_kind.setdefault(outcome.kind, {}).setdefault(dtype, set()).add(number)
                reasons.setdefault(outcome.kind, outcome.reason)
    return [(kind, by_kind[kind], reasons[kind]) for kind in sorted(by_kind)]


def write(entries: str, jobs: int) -> None:
    """Writes the file; of entries that do not match, what it has of them."""
    calm()
    every = [*pairs(), *pairs(gradient=True)]
    anew = [pair for pair in every if re.search(entries, pair.entry)]
    if not anew:
        sys.exit(f"op_db has no entry whose name matches {entries!r}: the list stays as it is")
    with concurrent.futures.ProcessPoolExecutor(
            jobs, multiprocessing.get_context("fork")) as pool:
        found: dict[str, dict[str, dict[int, Outcome]]] = {}
        for pair, planned in zip(anew, pool.map(outcomes, anew), strict=True):
            found.setdefault(pair.entry, {})[pair.name.partition("/")[2]] = planned
    rows = [] if len(anew) == len(every) else [row for row in _rows() if row[0] not in found]
    rows += [(entry, *row) for entry in found for row in rows_of(found[entry])]
    LIST.write_text(
        f"# What of torch {VERSION}'s op_db is not wholly in engines: entry, outcome, numbers of\n"
        "# samples by dtype, and why the first of them is not. Written by `opinfo_listed.py\n"
        "# --write`, which says which samples this is about.\n"
        + "".join(map(_line, sorted(rows, key=lambda row: row[:2]))))


def _line(row) -> str:
    entry, kind, where, reason = row
    facts = " ".join([entry, kind, *(f"{dtype}:{_text(n)}" for dtype, n in where.items())])
    return f"{facts} | {reason[:120]}".removesuffix(" | ") + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="What of op_db is not wholly in engines.")
    parser.add_argument("--write", action="store_true", help=f"write {LIST.name} anew")
    parser.add_argument("--entries", default="", help="regular expression: plan these alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if not options.write:
        parser.error("--write")
    write(options.entries, options.jobs)


if __name__ == "__main__":
    main()
