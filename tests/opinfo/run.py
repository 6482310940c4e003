"""Runs samples of op_db: `python tests/opinfo/run.py --results DIR [--jobs 2] [--most N] …`.

A run that is stopped goes on where it was when started again with the same directory. A sample
that ends its process, or takes longer than --limit allows, is a crash; the others go on. What is
wholly in engines is compared with outside_engines.txt (opinfo_listed.py). In a run of --seconds
every entry has one sample before any has two, so that it sees as many entries as it can.
"""

import argparse
import collections
import faulthandler
import os
import re
import sys
import time
import traceback
from pathlib import Path

os.environ.setdefault("TORCH_VULKAN_OPTIMIZATION_LEVEL", "0")
sys.path.insert(1, str(Path(__file__).resolve().parents[1]))  # denormals, record

import torch
from opinfo_forms import FORMS
from opinfo_listed import difference
from opinfo_results import Results, by_entry, verdict
from opinfo_run import calm, run
from opinfo_samples import DTYPES, Pair, by_hash, chosen, pairs, samples

from record import record

_BROKEN = 3  # exit status of a part that an error of the runner's own ended


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, help="directory of the results")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--dtypes", nargs="*", default=[str(d).split(".")[1] for d in DTYPES],
                        help="default: all nine; of gradients alone: float32/grad")
    parser.add_argument("--entries", default="", help="regular expression of entries' names")
    parser.add_argument("--most", type=int, help="samples of an entry and dtype; default: all")
    parser.add_argument("--gradients", action="store_true", help="of all those --dtypes")
    parser.add_argument("--form", choices=FORMS, default="plain", help="of the tensors")
    parser.add_argument("--again", action="store_true", help="also those that have a result")
    parser.add_argument("--sample", nargs="*", help="these alone, here and now: add/float32/3")
    parser.add_argument("--limit", type=int, default=300,
                        help="seconds for a sample, times --jobs, as these share the machine")
    parser.add_argument("--seconds", type=float, help="end after that many; default: when done")
    parser.add_argument("--seed", default="", help="another order of the entries")
    parser.add_argument("--compact", type=Path, help="a file that gets all outcomes in the end")
    options = parser.parse_args()
    if not options.results and not options.sample:
        parser.error("--results or --sample")
    return options


def selected(options) -> list[Pair]:
    """The pairs of a run, of each type in an order of their own."""
    found = []
    for name in options.dtypes:
        dtype, gradient = name.removesuffix("/grad"), name.endswith("/grad") or options.gradients
        wanted = [pair for pair in pairs((getattr(torch, dtype),), gradient)
                  if re.search(options.entries, pair.entry)]
        found += by_hash(wanted, len(wanted), options.seed)
    return found


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


def work(options, part: int, until: float) -> None:
    """What one process does: its share of the pairs, to the end or until that time."""
    results = Results(options.results, f"part{part}")
    done = results.read()
    if options.again:
        done = {name: o for name, o in done.items() if o.get("reason") == "the process ended"}
    mine = selected(options)[part::options.jobs]
    for most in rounds(options):
        mine = [pair for pair in mine if take(pair, most, done, results, options, until)]


def rounds(options):
    """How many samples of an entry the rounds of a run take; in the end `most`."""
    if options.seconds:
        yield from (count for count in (1, 8, 64) if count < (options.most or 1000))
    yield options.most


def take(pair, most: int | None, done: dict, results: Results, options, until: float) -> bool:
    """Runs a pair's samples of a round; whether it has more than those."""
    if time.time() > until:
        return False
    inputs = samples(pair)
    for number in chosen(pair, len(inputs), most):
        name = f"{pair.name}/{number}"
        if name in done:
            continue
        if time.time() > until:
            return False
        results.begin(name)
        faulthandler.dump_traceback_later(options.limit * options.jobs, exit=True)
        outcome = run(pair, inputs[number], options.form)
        done[name] = outcome.record()
        compared = options.form == "plain" and outcome.kind not in ("wrong", "crash")
        if compared and (why := difference(pair, number, len(inputs), outcome)):
            done[name]["not_as_listed"] = why
        faulthandler.cancel_dump_traceback_later()
        results.end(name, done[name])
        record("ran", name)
        if outcome.kind in ("wrong", "crash") or "not_as_listed" in done[name]:
            record("failed", f"{name}: {outcome.kind}: {outcome.reason[:200]}")
    return most is not None and len(inputs) > most


def start(options) -> None:
    """Runs the parts, and a part anew where a sample ended its process. They are copies of this
    process, which has loaded PyTorch and opened no device."""
    until = time.time() + (options.seconds or float("inf"))
    calm()
    running = {_fork(options, part, until): part for part in range(options.jobs)}
    while running:
        process, status = os.wait()
        part = running.pop(process)
        if os.waitstatus_to_exitcode(status) == _BROKEN:
            sys.exit("the run itself failed")
        if status:
            running[_fork(options, part, until)] = part


def _fork(options, part: int, until: float) -> int:
    process = os.fork()
    if process:
        return process
    code = _BROKEN
    try:
        work(options, part, until)
        code = 0
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(code)


def print_counts(results: dict[str, dict]) -> bool:
    """Prints the counts, what is wrong, and what is not as outside_engines.txt lists it; whether
    nothing is."""
    kinds = collections.Counter(outcome["kind"] for outcome in results.values())
    print("  ".join(f"{kind} {count}" for kind, count in kinds.most_common()))
    for sample, outcome in results.items():
        if outcome["kind"] in ("wrong", "crash"):
            print(f"{outcome['kind']}: {sample}: {outcome.get('reason', '')[:200]}")
        if "not_as_listed" in outcome:
            print(f"not as listed: {outcome['not_as_listed']}")
    verdicts = collections.Counter(verdict(o) for o in by_entry(results).values())
    whole = verdicts["engine"]
    of_interest = whole + verdicts["native"] + verdicts["wrong"]
    if of_interest:
        print(f"float32 entries whole in engines: {whole} of {of_interest} "
              f"({100 * whole / of_interest:.1f} %)")
    return not any(o["kind"] in ("wrong", "crash") or "not_as_listed" in o
                   for o in results.values())


def main() -> None:
    options = arguments()
    if options.sample:
        sys.exit(0 if print_samples(options) else 1)
    start(options)
    results = Results(options.results)
    if options.compact:
        results.write_compact(options.compact)
    sys.exit(0 if print_counts(results.read()) else 1)


if __name__ == "__main__":
    main()
