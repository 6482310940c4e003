"""What the service runs in processes of their own: builds, and questions about devices.

    python torch_vulkan_service.py task build TASK.json
    python torch_vulkan_service.py task devices          # the Vulkan devices of this machine
    python torch_vulkan_service.py task profile          # checks the device profile on stdin
    python torch_vulkan_service.py task inspect NET.vke  # checks an engine

A build is given the place of an ONNX file or a graph file, which is not trusted, and a folder that
it may write to. It knows neither the database, nor keys, nor the network.
"""

import ctypes
import errno
import hashlib
import json
import re
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ..._base import whole_files
from ..files import graph_files, onnx_files, weights_file
from ..messages.build_settings import DEFAULTS
from . import compiler, timings

LAVAPIPE = 13  # VkDriverId
_MOST_REASONS = 200
_LONGEST_REASON = 2000


def main(arguments: list[str]) -> int:
    command, *rest = arguments
    return {"build": _build_command, "devices": _devices, "profile": _profile,
            "inspect": _inspect}[command](*rest)


def _describe(profile) -> dict:
    values = json.loads(profile.to_json())
    slug = re.sub(r"[^a-z0-9]+", "-", profile.name.lower()).strip("-")
    return {"name": "lavapipe" if values["driver_id"] == LAVAPIPE else slug,
            "description": f"{profile.name}, {profile.driver_name} {profile.driver_info}".strip(),
            "profile": values, "runs_on": profile.runs_on(), "tuned_for": profile.tuned_for()}


def _devices() -> int:
    C = compiler.load()
    try:
        found = [_describe(profile) for profile in C.list_devices()]
    except (C.DeviceError, RuntimeError) as error:
        print(f"no Vulkan device: {error}", file=sys.stderr)
        found = []
    print(json.dumps(found))
    return 0


def _profile() -> int:
    C = compiler.load()
    try:
        described = _describe(C.DeviceProfile.from_json(sys.stdin.read()))
    except (ValueError, RuntimeError) as error:
        described = {"error": str(error)}
    print(json.dumps(described))
    return 0


def _inspect(path: str) -> int:
    C = compiler.load()
    try:
        print(json.dumps(_engine(C, Path(path).read_bytes())))
    except (ValueError, RuntimeError, MemoryError) as error:
        print(json.dumps({"error": str(error) or type(error).__name__}))
    return 0


def _engine(C, data: bytes) -> dict:
    files = C.split_vke(data)
    infos = [C.vke_info(file) for file in files]
    if len({info["runs_on"] for info in infos}) != 1:
        raise ValueError("its parts run on different kinds of devices")
    if infos[0]["weights"] and not C.vke_weights(files[0]):
        raise ValueError("it was saved without its weights")
    return {"runs_on": infos[0]["runs_on"], "tuned_for": infos[0]["tuned_for"],
            "version": infos[0]["builder_version"]}


def _build_command(path: str) -> int:
    task = json.loads(Path(path).read_text())
    out = Path(task["out"])
    C = compiler.load()
    start = time.monotonic()
    try:
        result = build(C, task, out, _say)
    except (ValueError, RuntimeError) as error:  # the compiler's errors are among these
        result = {"state": "FAILED", "reasons": str(error).splitlines()
                  or [type(error).__name__]}
    except MemoryError:
        result = {"state": "FAILED", "reasons": ["out of memory: the task's limit is reached"]}
    except OSError as error:
        if error.errno != errno.EFBIG:
            raise
        result = {"state": "FAILED", "reasons": [
            "the engine is larger than what a task may write: "
            f"{resource.getrlimit(resource.RLIMIT_FSIZE)[0]} bytes"]}
    result["reasons"] = [line[:_LONGEST_REASON] for line in result["reasons"][:_MOST_REASONS]]
    for line in result["reasons"]:
        _say(line)
    _say(f"{result['state']} after {time.monotonic() - start:.1f} s")
    whole_files.write_text(out / "result.json", json.dumps(result), "task")
    return 0


def build(C, task: dict, out: Path, say: Callable[[str], None]) -> dict:
    """Writes engine.vke to the folder, unless the model has to be refused.

    Args:
        task: "model" (a path), "device" (a name to print), "profile", "level" and "options"; "data"
            is the folder of external data, where the model may have some, and "weights" a
            .safetensors file in it; "files", where it is given, are the names of all that were
            sent with it. "guarded": the engine is to be loaded with check_addresses.
        say: called with lines for people.

    Returns:
        "state" and "reasons"; of what was built "tuned", "version", "builder" and "engine_key".
    """
    options = task["options"]
    say(f"reading the model for {task['device']}")
    imported = _read(C, task, out, say)
    if left := sorted({*task.get("files", ())} - {*onnx_files.data_files(Path(task["model"]))}):
        return {"state": "FAILED", "reasons": [
            f"the file {name[:200]!a} was sent, and nothing in the model names it"
            for name in left]}
    guarded = task.get("guarded", False)
    if guarded:
        say("a graph file of a key that may not publish: its engine is not tuned, has no matrix "
            "units, and is loaded with check_addresses")
    profile = C.DeviceProfile.from_json(json.dumps(task["profile"]))
    tuned = task["level"] > 0 and not guarded and _is_here(C, profile)
    if task["level"] and not tuned and not guarded:
        say("the device is not here: the first kernel that applies is taken for each layer")
    settings = {name: options.get(name, default) for name, default in DEFAULTS.items()}
    settings |= {"optimization_level": task["level"] if tuned else 0, "min_block_size": 1,
                 "matrix_units": not guarded, "cache_dir": str(out / "cache"),
                 "timing_cache_path": str(out / timings.NAME)}
    plan = C.plan(imported.graph, json.dumps(settings), profile, whole=True)
    if plan.refusals:
        return {"state": "FAILED", "reasons": list(plan.refusals)}
    vke = _with_weights(C, C.build(plan, 0, _progress(say)), imported)
    with whole_files.written(out / "engine.vke", "task") as file:
        file.write(vke)
    say(f"built: {len(C.vke_info(vke)['layers'])} layers, {len(vke)} bytes")
    return {"state": "COMPLETED", "reasons": [], "tuned": tuned, "version": C.version,
            "builder": C.builder_digest(),
            "engine_key": hashlib.sha256(plan.key(0)).hexdigest()}


def _read(C, task: dict, out: Path, say: Callable[[str], None]):
    """The graph and its weights."""
    model, weights = task["model"], task.get("weights")
    inputs = {name: [tuple(dim) for dim in dims]
              for name, dims in task["options"].get("inputs", {}).items()}
    if weights:
        say(f"weights: {len(weights_file.tensors_of(Path(weights)))} tensors")
    if graph_files.is_graph_file(model):
        return C.read_graph_file(model, inputs, weights or "")
    if weights:
        model = str(out / "model.onnx")
        weights_file.put_into(Path(task["model"]), Path(weights), Path(model))
    # Not beside a file of the store, where other models lie.
    return C.import_onnx(model, {"inputs": inputs, "constants": {},
                                 "directory": task.get("data") or str(out / "none")})


def _is_here(C, profile) -> bool:
    try:
        return any(p.to_json() == profile.to_json() for p in C.list_devices())
    except (C.DeviceError, RuntimeError):
        return False


def _with_weights(C, vke: bytes, imported) -> bytes:
    """The engine with the file's weights, in the engine's order."""
    places = {name: i for i, (name, _, _) in enumerate(imported.weights)}
    held = [imported.weight_bytes(places[weight["name"]])
            for weight in C.vke_info(vke)["weights"]]
    addresses = [(ctypes.addressof(ctypes.c_char.from_buffer(data)) if data else 0, len(data))
                 for data in held]
    return C.vke_with_weights(vke, addresses)


def _progress(say):
    last = [""]

    def report(stage: str, done: int, total: int) -> None:
        if total and stage != last[0]:  # passes over the graph count nothing: they are quick
            last[0] = stage
            say(f"{stage}: {total}")

    return report


def _say(text: str) -> None:
    print(text, flush=True)
