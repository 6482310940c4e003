"""What the tuner measured, shared by all tasks that tune on one kind of device: each starts from
what the others know and adds its own.

The files are the compiler's (csrc/tuner/timing_cache.h). A task may be hostile, so of what it wrote
only well-formed entries of its own device are taken, and without their claim to have been compared
with the reference: whoever chooses such a kernel compares it again. So a wrong entry costs speed
and no result.
"""

import hashlib
import json
import logging
import threading
from pathlib import Path

from ..._base import whole_files

NAME = "timings.json"
LONGEST = 32 << 20
_HEAD = {"format": "torch_vulkan timings", "version": 1}
_USABLE = ("timed", "slow")
_KINDS = (*_USABLE, "wrong", "lost", "refused")
_LONGEST_TEXT = 4000
_MOST_STEPS = 1000
_SLOWEST_US = 1e12
log = logging.getLogger("torch_vulkan.service")


class Timings:
    """A folder with a file for each kind of device. Threads may share one; a file that is lost or
    damaged is measured again."""

    def __init__(self, folder: Path):
        self._folder, self._lock = folder, threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)

    def _path(self, tuned_for: str) -> Path:
        return self._folder / f"{hashlib.sha256(tuned_for.encode()).hexdigest()}.json"

    def get(self, tuned_for: str) -> bytes | None:
        """The file of a kind of device; None: nothing is known."""
        try:
            return self._path(tuned_for).read_bytes()
        except FileNotFoundError:
            return None

    def add(self, tuned_for: str, more: bytes) -> int:
        """Takes what a file says of the device; returns how many entries are new or changed. Where
        all would be too much, it takes the place of what was known.

        Raises:
            ValueError: it is no file of timings, or too much.
        """
        new = _entries(more, tuned_for)
        with self._lock:
            try:
                known = _entries(self.get(tuned_for) or _file(tuned_for, {}), tuned_for)
            except ValueError as error:
                log.warning("timings begin anew: %s", error)
                known = {}
            changed = 0
            for problem, tactics in new.items():
                there = known.setdefault(problem, {})
                for tactic, entry in tactics.items():
                    if _replaces(entry, there.get(tactic)):
                        changed += there.get(tactic) != entry
                        there[tactic] = entry
            if changed:
                data = _file(tuned_for, known)
                if len(data) > LONGEST:
                    log.warning("timings begin anew: they would have %d bytes", len(data))
                    data = _file(tuned_for, new)
                if len(data) > LONGEST:
                    raise ValueError(f"timings of one device may have {LONGEST} bytes")
                with whole_files.written(self._path(tuned_for), "timings") as file:
                    file.write(data)
            return changed


def _file(tuned_for: str, entries: dict) -> bytes:
    return json.dumps({**_HEAD, "devices": {tuned_for: entries}}, indent=1).encode()


def _entries(data: bytes, tuned_for: str) -> dict[str, dict[str, dict]]:
    """Problem → tactic → entry of one device. Raises ValueError for what is no file of timings."""
    if len(data) > LONGEST:
        raise ValueError(f"timings of one device may have {LONGEST} bytes")
    try:
        file = json.loads(data)
        devices = file["devices"]
        if any(file[name] != value for name, value in _HEAD.items()):
            raise TypeError
        problems = devices.get(tuned_for, {})
        return {problem: {tactic: _unchecked(entry) for tactic, entry in tactics.items()
                          if _is_text(tactic) and _is_entry(entry)}
                for problem, tactics in problems.items() if _is_text(problem)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError("this is no file of timings of this version") from None


def _replaces(entry: dict, there: dict | None) -> bool:
    """Whether an entry counts more than the one that is there: a kernel that others could time is
    not given up because one task says so."""
    return (there is None or there["kind"] != "timed" or entry["kind"] in _USABLE
            or entry["kernels"] != there["kernels"])


def _unchecked(entry: dict) -> dict:
    left_out = ("checked", "why") if entry["kind"] in _USABLE else ("checked",)
    return {name: value for name, value in entry.items() if name not in left_out}


def _is_text(value) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_TEXT and value.isascii()


def _is_time(value) -> bool:
    return (isinstance(value, (int, float)) and not isinstance(value, bool)
            and 0 <= value < _SLOWEST_US)


def _is_entry(entry) -> bool:
    """Whether the compiler reads it: one that it does not would cost it the whole file."""
    if not isinstance(entry, dict) or entry.get("kind") not in _KINDS:
        return False
    steps = entry.get("step_us", [])
    return (entry.keys() <= {"kernels", "kind", "time_us", "checked", "why", "step_us"}
            and _is_text(entry.get("kernels")) and _is_text(entry.get("why", ""))
            and isinstance(entry.get("checked", False), bool)
            and (_is_time(entry.get("time_us")) if entry["kind"] in _USABLE
                 else _is_time(entry.get("time_us", 0)))
            and isinstance(steps, list) and len(steps) <= _MOST_STEPS
            and all(_is_time(us) for us in steps))
