"""Runs samples of op_db: `python tests/opinfo/run.py --results DIR [--jobs 2] [--most N] …`.

A run that is stopped goes on where it was when started again with the same directory. A sample
that ends its process, or takes longer than --limit, is a crash; the others go on. Every entry has
one sample before any has two, so that a run of --seconds sees as many entries as it can.
"""

import argparse
import collections
import faulthandler
import os
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path

os.environ.setdefault("TORCH_VULKAN_OPTIMIZATION_LEVEL", "0")

import torch
from opinfo_forms import FORMS
from opinfo_results import Results, by_entry, verdict
from opinfo_run import run
from opinfo_samples import DTYPES, Pair, by_hash, chosen, pairs, samples


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, help="directory of the results")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--dtypes", nargs="*", help="default: all nine")
    parser.add_argument("--entries", default="", help="regular expression of entries' names")
    parser.add_argument("--most", type=int, help="samples of an entry and dtype; default: all")
    parser.add_argument("--gradients", action="store_true", help="of the entries' gradients")
    parser.add_argument("--form", choices=FORMS, default="plain", help="of the tensors")
    parser.add_argument("--again", action="store_true", help="also those that have a result")
    parser.add_argument("--sample", nargs="*", help="these alone, here and now: add/float32/3")
    parser.add_argument("--limit", type=int, default=300, help="seconds for a sample")
    parser.add_argument("--seconds", type=float, help="end after that many; default: when done")
    parser.add_argument("--compact", type=Path, help="a file that gets all outcomes in the end")
    parser.add_argument("--until", type=float, default=float("inf"), help=argparse.SUPPRESS)
    parser.add_argument("--part", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.results and not options.sample:
        parser.error("--results or --sample")
    return options


def selected(options):
    dtypes = [getattr(torch, d) for d in options.dtypes] if options.dtypes else DTYPES
    wanted = [p for p in pairs(dtypes, options.gradients) if re.search(options.entries, p.entry)]
    return by_hash(wanted, len(wanted))


def calm() -> None:
    """Sets up this process; seeds are for the CPU alone, as the others' cost 10 ms a sample."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if not torch.cuda.is_available():
        for module in (torch.cuda, torch.xpu, torch.mtia):
            module.manual_seed_all = lambda seed: None


def print_samples(options) -> bool:
    """Runs and prints the samples of --sample; whether none is wrong."""
    calm()
    fine = True
    for name in options.sample:
        entry, dtype, *rest = name.split("/")
        pair = Pair(entry, getattr(torch, dtype), rest[0] == "grad")
        outcome = run(pair, samples(pair)[int(rest[-1])], options.form)
        print(f"{outcome.kind}: {name}: {outcome.reason}")
        fine &= outcome.kind not in ("wrong", "crash")
    return fine


def work(options) -> None:
    """What one process does: its share of the pairs."""
    calm()
    results = Results(options.results, f"part{options.part}")
    done = results.read()
    if options.again:
        done = {name: o for name, o in done.items() if o.get("reason") == "the process ended"}
    mine = selected(options)[options.part::options.jobs]
    for most in rounds(options.most):
        mine = [pair for pair in mine if take(pair, most, done, results, options)]


def rounds(most: int | None):
    """How many samples of an entry the rounds of a run take: 1, 3, 9, … and in the end `most`."""
    count = 1
    while count < (most or 1000):
        yield count
        count *= 3
    yield most


def take(pair, most: int | None, done: dict, results: Results, options) -> bool:
    """Runs a pair's samples of a round; whether it has more than those."""
    if time.time() > options.until:
        return False
    inputs = samples(pair)
    for number in chosen(pair, len(inputs), most):
        name = f"{pair.name}/{number}"
        if name in done:
            continue
        if time.time() > options.until:
            return False
        results.begin(name)
        faulthandler.dump_traceback_later(options.limit, exit=True)
        done[name] = run(pair, inputs[number], options.form).record()
        faulthandler.cancel_dump_traceback_later()
        results.end(name, done[name])
    return most is not None and len(inputs) > most


def start(options) -> None:
    """Runs the parts, and a part anew where its process ended early."""
    if options.seconds:
        sys.argv += ["--until", str(time.time() + options.seconds)]
    waiting = {part: _spawn(part) for part in range(options.jobs)}
    while waiting:
        for part, process in list(waiting.items()):
            try:
                code = process.wait(timeout=1)
            except subprocess.TimeoutExpired:
                continue
            if code in (0, 2):
                del waiting[part]
            else:
                waiting[part] = _spawn(part)


def _spawn(part: int):
    return subprocess.Popen([sys.executable, *sys.argv, "--part", str(part)])


def print_counts(results: dict[str, dict]) -> bool:
    """Prints the counts and what is wrong; whether nothing is."""
    kinds = collections.Counter(outcome["kind"] for outcome in results.values())
    print("  ".join(f"{kind} {count}" for kind, count in kinds.most_common()))
    for sample, outcome in results.items():
        if outcome["kind"] in ("wrong", "crash"):
            print(f"{outcome['kind']}: {sample}: {outcome.get('reason', '')[:200]}")
    verdicts = collections.Counter(verdict(o) for o in by_entry(results).values())
    whole = verdicts["engine"]
    of_interest = whole + verdicts["native"] + verdicts["wrong"]
    if of_interest:
        print(f"float32 entries whole in engines: {whole} of {of_interest} "
              f"({100 * whole / of_interest:.1f} %)")
    return not {"wrong", "crash"} & {o["kind"] for o in results.values()}


def main() -> None:
    options = arguments()
    if options.sample:
        sys.exit(0 if print_samples(options) else 1)
    if options.part is not None:
        work(options)
        return
    start(options)
    results = Results(options.results)
    if options.compact:
        results.write_compact(options.compact)
    sys.exit(0 if print_counts(results.read()) else 1)


if __name__ == "__main__":
    main()
