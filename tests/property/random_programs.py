"""Random programs, eager and compiled: python tests/property/random_programs.py --seconds 600.

Program i of seed N is `N/i`; --replay N/i writes it again, runs it and shrinks it. --file runs a
case of found/. Worker processes take every K-th program; one that ends its process is a difference.
"""

import argparse
import collections
import contextlib
import faulthandler
import functools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

os.environ.setdefault("TORCH_VULKAN_OPTIMIZATION_LEVEL", "0")
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(1, str(Path(__file__).parents[1]))

from program_case import load
from program_check import check, quiet, shrink
from program_worlds import run_world
from program_writer import write

FOUND = Path(__file__).parent / "found"
LIMIT = 300  # seconds for a program
COMMAND = "python tests/property/random_programs.py"


def arguments(given: list[str] | None = None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--programs", type=int, default=10**9, help="end after that many")
    parser.add_argument("--seed", default=str(int(time.time())), help="default: the time")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--shrink", type=float, default=60, help="seconds for each; 0: not at all")
    parser.add_argument("--keep", type=Path, help="a directory that gets what was found")
    parser.add_argument("--replay", help="one program, N/i")
    parser.add_argument("--file", type=Path, help="one case")
    parser.add_argument("--without", nargs="*", default=[], help="kinds that do not count")
    parser.add_argument("--beside", action="store_true",
                        help="with --replay or --file: PyTorch's aot_eager alone runs it")
    parser.add_argument("--work", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args(given)


def one(number: str, without=frozenset(), seconds_to_shrink: float = 0) -> dict:
    """Writes and checks a program; the record of what happened."""
    case = write(number)
    judge = functools.partial(check, without=without)
    verdict = judge(case.text())
    record = {"number": number, "calls": verdict.calls, "torchs": verdict.torchs,
              "rounding": verdict.rounding, "native": verdict.native, "refused": verdict.refused}
    if verdict.wrong:
        record |= {"wrong": [str(d) for d in verdict.wrong], "kinds": sorted(verdict.kinds())}
        record["text"] = case.text(f"{COMMAND} --replay {number}")
        if seconds_to_shrink:
            faulthandler.cancel_dump_traceback_later()
            small = shrink(case, seconds_to_shrink, judge)
            why = "; ".join(map(str, judge(small.text()).wrong[:3]))[:800]
            title = f"{COMMAND} --replay {number}\n\n{why}\n"
            record["small"] = small.text(title.replace("\\", "\\\\").replace('"""', "'''"))
    return record


def work(options) -> None:
    """A worker: writes a line when it begins a program and one with its record."""
    quiet()
    end = time.monotonic() + options.seconds
    kinds = collections.Counter()
    for i in range(options.first, options.programs, options.workers):
        if time.monotonic() > end:
            break
        number = f"{options.seed}/{i}"
        print(json.dumps({"begin": number, "i": i}), flush=True)
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        try:
            record = one(number, frozenset(options.without))
            kind = str(record.get("kinds"))
            if "kinds" in record and options.shrink and kinds[kind] < 3:
                kinds[kind] += 1
                record = one(number, frozenset(options.without), options.shrink)
        except Exception:  # noqa: BLE001  an error of the fuzzer's own is shown, too
            record = {"number": number, "kinds": ["fuzzer"], "wrong": [traceback.format_exc()],
                      "calls": 0, "text": ""}
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps(record), flush=True)
    print(json.dumps({"done": True}), flush=True)


class Campaign:
    """Worker processes and what they found."""

    def __init__(self, options):
        self._options, self._lock = options, threading.Lock()
        self.count, self.found = collections.Counter(), []
        self._processes: set[subprocess.Popen] = set()
        self._end = time.monotonic() + options.seconds

    def run(self) -> None:
        threads = [threading.Thread(target=self._part, args=(k,))
                   for k in range(self._options.workers)]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:
            self.stop()
            for thread in threads:
                if thread.ident is not None:  # else it was not started
                    thread.join()

    def stop(self) -> None:
        """Ends all processes, now and from now on; what was found stays."""
        with self._lock:
            self._end = 0
            for process in self._processes:
                process.kill()

    @contextlib.contextmanager
    def _started(self, *arguments: str):
        """A process of this script; None once the campaign was stopped. In a session of its own an
        interrupt from the keyboard reaches the campaign alone."""
        with self._lock:
            process = self._end and subprocess.Popen(
                [sys.executable, __file__, *arguments], stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True, start_new_session=True)
            if process:
                self._processes.add(process)
        try:
            yield process or None
        finally:
            with self._lock:
                self._processes.discard(process)

    def _part(self, first: int) -> None:
        """Runs a worker, and another one from where it ended before its time."""
        while first is not None and time.monotonic() < self._end:
            first = self._worker(first)

    def _worker(self, first: int) -> int | None:
        o = self._options
        with self._started(
                "--work", "1", "--first", str(first), "--seed", o.seed, "--workers", str(o.workers),
                "--programs", str(o.programs), "--shrink", str(o.shrink), "--seconds",
                str(max(self._end - time.monotonic(), 1)), "--without", *o.without) as process:
            if process is None:
                return None
            errors: list[str] = []
            reader = threading.Thread(target=lambda: errors.extend(process.stderr))
            reader.start()
            begun, following, done = None, first, False
            for line in process.stdout:
                record = json.loads(line) if line.startswith("{") else {}
                if "begin" in record:
                    begun, following = record["begin"], record["i"] + o.workers
                elif "done" in record:
                    done = True
                elif "number" in record:
                    begun = None
                    self._take(record)
            status = process.wait()
            reader.join()
        if (done and status == 0) or not self._end:
            return None
        said = "".join(errors[-60:])
        if begun is None and status == -signal.SIGKILL:  # the system does that (_crash)
            with self._lock:
                self.count["killed"] += 1
            return following
        if begun is None:  # as the next one would
            wrong = f"the worker ended with {status} while it ran no program: {said}"
            self._find({"number": f"{o.seed}/{following}", "kinds": ["worker"], "wrong": [wrong],
                        "text": ""})
            return None
        record = self._crash(begun, status, said)
        if not self._end:  # what was to be known of it was ended, too
            return None
        self._take(record)
        return following

    def _crash(self, number: str, status: int, errors: str) -> dict:
        """The record of a program that ended its process: PyTorch's own crash if it does so, by the
        same signal, with PyTorch's backend alone."""
        record = {"number": number, "calls": 0}
        if status < 0 and self._again(number, "--beside")[0] == status:
            return record | {"torchs": 1}
        wrong = f"the process ended with {status}: {errors}"
        if status == -signal.SIGKILL:
            # The system kills the largest process where memory is short, whoever took it.
            alone, said = self._again(number, "--shrink", "0", "--without", *self._options.without)
            if alone == 0:
                return record | {"killed": 1}
            wrong += f"\nand alone with {alone}: {said[-2000:]}"
        return record | {"kinds": ["crash"], "wrong": [wrong],
                         "text": write(number).text(f"{COMMAND} --replay {number}")}

    def _again(self, number: str, *how: str) -> tuple[int | None, str]:
        """Status and output of the program in a process of its own; None: it takes too long, or the
        campaign was stopped."""
        with self._started("--replay", number, *how) as process:
            if process is None:
                return None, ""
            try:
                said, _ = process.communicate(timeout=LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                return None, process.communicate()[0]
            return process.returncode, said

    def _take(self, record: dict) -> None:
        with self._lock:
            self.count.update(programs=1, calls=record["calls"], native=record.get("native", 0),
                              skipped=bool(record.get("refused")),
                              torchs=bool(record.get("torchs")), killed=record.get("killed", 0),
                              roundings=bool(record.get("rounding")))
        if "wrong" in record:
            self._find(record)

    def _find(self, record: dict) -> None:
        with self._lock:
            self.found.append(record)
            self._show(record)

    def _show(self, record: dict) -> None:
        print(f"\n=== {COMMAND} --replay {record['number']}")
        print("\n".join(record["wrong"][:8]))
        print(record.get("small") or record["text"], flush=True)
        if self._options.keep:
            self._options.keep.mkdir(parents=True, exist_ok=True)
            name = re.sub(r"\W", "_", f"{'_'.join(record['kinds'])}_{record['number']}")
            (self._options.keep / f"{name}.py").write_text(record.get("small") or record["text"])

    def summary(self) -> str:
        """The line that a run ends with."""
        kinds = collections.Counter(" ".join(r["kinds"]) for r in self.found)
        return (f"seed {self._options.seed}: {self.count['programs']} programs, "
                f"{self.count['calls']} calls, {self.count['skipped']} skipped (eager refuses the "
                f"first call), {self.count['torchs']} differ with PyTorch's own too, "
                f"{self.count['roundings']} magnify roundings, {self.count['native']} engines gave "
                f"a call back, {self.count['killed']} killed by the system and right alone; "
                f"{len(self.found)} differences {dict(kinds) or ''}")


def main() -> int:
    options = arguments()
    if options.work:
        work(options)
        return 0
    if options.beside:
        quiet()
        text = options.file.read_text() if options.file else write(options.replay).text()
        run_world(load(text), "aot_eager")
        return 0
    if options.replay or options.file:
        quiet()
        if options.file:
            wrong = [str(d) for d in check(options.file.read_text(),
                                              frozenset(options.without)).wrong]
        else:
            record = one(options.replay, frozenset(options.without), options.shrink)
            wrong = record.get("wrong", [])
            print(record.get("small") or record.get("text") or write(options.replay).text())
        print("\n".join(wrong) or "no difference")
        return bool(wrong)
    campaign = Campaign(options)
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background job ignores the first
        signal.signal(number, signal.default_int_handler)
    campaign.run()
    print(campaign.summary())
    return bool(campaign.found)


if __name__ == "__main__":
    sys.exit(main())
