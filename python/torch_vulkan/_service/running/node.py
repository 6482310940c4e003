"""One run on a node of a cluster: what the local runner does, with the store between.

    python torch_vulkan_service.py node STORE_URL RUN

The node has the package, bubblewrap, and the right to read and write the store. Its folder there,
runs/RUN, holds task.json and timings.json before, and result.json, engine.vke, timings.json and at
last outcome.json after.
"""

import contextlib
import hashlib
import json
import sys
import tempfile
import time
from pathlib import Path

from ..storage.remote_store import file_system
from ..storage.store import open_plain, place
from . import timings
from .local_runner import LocalRunner, remove_tree
from .runner import Run, Status
from .sandbox import Limits, bubblewrap, why_not

FILES = ("result.json", "engine.vke", timings.NAME)
OUTCOME = "outcome.json"
_INTERVAL_S = 0.2
_PIECE = 1 << 20
_TASK = 1  # a run's log is its own here


def run_folder(root: str, run_id: str) -> str:
    return f"{root}/runs/{run_id}"


def main(arguments: list[str]) -> int:
    url, run_id = arguments
    fs, root = file_system(url)
    there = run_folder(root, run_id)
    given = json.loads(fs.cat_file(f"{there}/task.json"))
    with tempfile.TemporaryDirectory(prefix="tv-run-") as name:
        status = _ran(fs, root, run_id, given, Path(name))
        if not status.fault:
            for file in FILES:
                _upload(fs, status.folder / file, f"{there}/{file}")
        remove_tree(Path(name) / "runs")
    fs.pipe_file(f"{there}/{OUTCOME}", json.dumps(
        {"fault": status.fault, "again": status.again}).encode())
    if status.fault:
        print(status.fault, flush=True)
    return 0


def _ran(fs, root: str, run_id: str, given: dict, folder: Path) -> Status:
    bwrap = bubblewrap() if given["sandbox"] else None
    if given["sandbox"] and (reason := why_not(bwrap)):
        return Status(False, folder, f"the node cannot run tasks in a sandbox: {reason}")
    model = folder / "model"
    if fault := _download(fs, f"{root}/{place(given['digest'])}", model, given["digest"]):
        return Status(False, folder, fault, again=True)
    known = None
    with contextlib.suppress(FileNotFoundError):
        known = fs.cat_file(f"{run_folder(root, run_id)}/{timings.NAME}")
    runner = LocalRunner(folder, 1, Limits(**given["limits"]), bwrap)
    runner.submit(Run(run_id, _TASK, model, given["digest"], given["request"], timings=known))
    offset = 0
    while True:
        status = runner.status(run_id)
        while piece := runner.logs(_TASK, offset):
            offset += len(piece)
            sys.stdout.buffer.write(piece)
        sys.stdout.flush()
        if not status.running:
            return status
        time.sleep(_INTERVAL_S)


def _download(fs, there: str, path: Path, digest: str) -> str:
    """Why it could not; "": the model is there, as its digest says."""
    sha = hashlib.sha256()
    try:
        with fs.open(there, "rb") as source, open(path, "wb") as file:
            while piece := source.read(_PIECE):
                sha.update(piece)
                file.write(piece)
    except FileNotFoundError:
        return f"the node finds no {digest} in its store"
    return "" if f"sha256:{sha.hexdigest()}" == digest else f"{digest} is damaged in the store"


def _upload(fs, path: Path, there: str) -> None:
    """What the run left, if it is a file: it read a model that may be hostile."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        with open_plain(path) as source, fs.open(there, "wb") as file:
            while piece := source.read(_PIECE):
                file.write(piece)
