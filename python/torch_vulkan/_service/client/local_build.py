"""Engines that this machine builds for itself, as a task of the service would, and keeps."""

import hashlib
import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..._base import whole_files
from ..._base.errors import UnsupportedError
from ..._native import C
from ..messages import build_settings
from ..running import task
from . import fetch

_DEFAULTS = {**build_settings.DEFAULTS, "inputs": {}}


@dataclass(frozen=True)
class Wanted:
    """What to build: `options` as plain_options gives them, those that have another value than the
    service's default."""

    name: str
    source: Path
    options: dict


def plain_options(options: Mapping[str, object]) -> dict:
    """As JSON has them. Raises ValueError for an unknown one."""
    unknown = [name for name in options if name not in _DEFAULTS]
    if unknown:
        raise ValueError(f"options: got {unknown[0]!r}, want some of {sorted(_DEFAULTS)}")
    return json.loads(json.dumps(dict(options)))


def engine(wanted: Wanted, profile, folder: Path) -> tuple[bytes, dict]:
    """The bytes of a .vke file with its weights, and its manifest: from the folder, if it was built
    for this device and driver by this version, else built and put there.

    Raises:
        UnsupportedError: the model cannot be one engine; the message says why.
    """
    manifest = {"model": wanted.name, "model_digest": fetch.model_digest(wanted.source),
                "runs_on": profile.runs_on(), "tuned_for": profile.tuned_for(),
                "options": {**_DEFAULTS, **wanted.options}, "builder": C.builder_digest()}
    for kept in _manifests(folder):
        if manifest.items() <= kept.items():
            return fetch.read(folder / fetch.file_name(kept), kept["engine_digest"]), kept
    vke, result = _build(wanted, profile, manifest["options"])
    manifest |= {"engine_digest": f"sha256:{hashlib.sha256(vke).hexdigest()}",
                 "tuned": result["tuned"], "engine_key": result["engine_key"],
                 "level": manifest["options"]["optimization_level"] if result["tuned"] else 0,
                 "version": result["version"], "created": time.time()}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / fetch.file_name(manifest)
    with whole_files.written(path, "AutoModel") as file:
        file.write(vke)
    whole_files.write_text(path.with_suffix(".json"), json.dumps(manifest, indent=1), "AutoModel")
    return vke, manifest


def _manifests(folder: Path) -> list[dict]:
    """Not signed: this machine wrote them."""
    return [json.loads(path.read_text()) for path in folder.glob("*.json")]


def _build(wanted: Wanted, profile, options: dict) -> tuple[bytes, dict]:
    with tempfile.TemporaryDirectory() as out:
        result = task.build(C, {
            "model": str(wanted.source), "data": str(wanted.source.absolute().parent),
            "device": profile.name,
            "profile": json.loads(profile.to_json()), "level": options["optimization_level"],
            "options": options}, Path(out), lambda _line: None)
        if result["state"] != "COMPLETED":
            raise UnsupportedError(f"{wanted.source} cannot be one engine:\n  "
                                   + "\n  ".join(result["reasons"]))
        return (Path(out) / "engine.vke").read_bytes(), result
