"""What tv-compile prints for people."""

import sys
import time
from collections.abc import Callable

from ..._base.units import size

_BAR = 24


def _table(head: list[str], rows: list[list[str]]) -> None:
    """Columns; nothing but the heads where there are no rows."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in [head, *rows]:
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
              .rstrip())


def printable(text: str) -> str:
    """Without what a terminal takes for commands: logs and reasons repeat what models say."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}"
                   for c in text)


def _when(seconds: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) if seconds else "-"


def _took(task: dict) -> str:
    if not task["started"]:
        return "-"
    return f"{max((task['ended'] or time.time()) - task['started'], 0):.1f} s"


def _state(task: dict) -> str:
    """Of what nobody has the device for yet, that it waits for no part of the job."""
    return "LATER" if task["later"] and task["state"] == "STARTING" else task["state"]


def show_job(job: dict) -> None:
    print(f"{job['id']}: {job['state']}, model {job['model']}")
    if why := job.get("waits_for"):
        print(printable(f"waits: {why}"))
    if event := job["webhook"]:
        print(f"webhook {event['id']}: {event['state']} after {event['attempts']} attempts"
              f"{'; ' if event['reason'] else ''}{printable(event['reason'])}")
    _table(["device", "state", "level", "time", "artefact"], [
        [task["device"], _state(task), str(task["level"]), _took(task), task["artifact"] or "-"]
        for task in job["tasks"]])
    for task in job["tasks"]:
        for line in task["reasons"]:
            print(printable(f"{task['device']}: {line}"))


def show_jobs(jobs: list[dict]) -> None:
    _table(["job", "state", "model", "created"],
           [[job["id"], job["state"], job["model"], _when(job["created"])] for job in jobs])


def show_artifacts(artifacts: list[dict]) -> None:
    _table(["model", "device", "tuned", "size", "created", "artefact"], [
        [a["model"], a["device"], "yes" if a["tuned"] else "no", size(a["size_bytes"]),
         _when(a["created"]), a["engine_digest"]] for a in artifacts])


def show_devices(devices: list[dict]) -> None:
    _table(["device", "here", "description"],
           [[d["name"], "yes" if d["is_here"] else "no", d["description"]] for d in devices])


def show_lines(lines: list[str]) -> None:
    print(*map(printable, lines), sep="\n")


def show_timings(done: dict) -> None:
    print(f"{done['changed']} entries are new" if "changed" in done else size(done["bytes"]))


def show_webhooks(events: list[dict] | dict) -> None:
    if isinstance(events, dict):
        print(events["secret"])
        return
    _table(["event", "job", "state", "attempts", "receiver", "last fault"], [
        [e["id"], e["job"], e["state"], str(e["attempts"]), e["host"],
         printable(e["reason"]) or "-"] for e in events])


def show_removed(removed: dict) -> None:
    print(f"{'would remove' if removed['dry_run'] else 'removed'} {removed['jobs']} jobs, "
          f"{removed['artifacts']} engines, {removed['files']} files ({size(removed['bytes'])})")
    for name in removed["names"]:
        print(f"  {name}")


def show_keys(keys: list[dict] | dict) -> None:
    if isinstance(keys, dict):
        print(keys["key"])
        return
    _table(["key", "name", "scopes", "created", "revoked"], [
        [k["id"], k["name"], ",".join(k["scopes"]), _when(k["created"]), _when(k["revoked"])]
        for k in keys])


def bar(name: str, show: Callable[[int], str] = size):
    """Called with what is done and its total, in bytes or as `show` has them; draws on a terminal
    alone."""
    if not sys.stderr.isatty():
        return None

    def draw(done: int, total: int) -> None:
        filled = _BAR * done // total if total else _BAR
        end = "\n" if done == total else ""
        sys.stderr.write(f"\r{name} [{'#' * filled:.<{_BAR}}] {show(done)} of {show(total)}{end}")
        sys.stderr.flush()

    return draw
