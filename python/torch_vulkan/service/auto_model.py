"""tv.AutoModel: the engine of a model that fits this device."""

import os
import urllib.parse
from pathlib import Path

from .._native import C
from ..cache import directory
from ..engine import Engine
from ..errors import UnsupportedError
from . import fetch
from .errors import ServiceError


class AutoModel:
    """Finds the engine of a model that fits this device. Not made: `from_pretrained` gives an
    Engine."""

    def __init__(self):
        raise TypeError("call tv.AutoModel.from_pretrained")

    @staticmethod
    def from_pretrained(name: str | os.PathLike, *, url: str | None = None,
                        api_key: str | None = None, device: int | str | None = None,
                        revision: str | None = None, cache_dir: str | os.PathLike | None = None,
                        local_files_only: bool = False) -> Engine:
        """Loads the newest engine of a model that runs on this device; of one model file's engines
        that which was tuned for it.

        Args:
            name: a model's name in the service ("team/net"), or a folder with engines, as
                `tv-compile artifacts --download` writes it or with .vke files alone. A folder of
                that name comes first.
            url, api_key: of the service (tv.service.Client).
            device: index, part of a name or UUID; None: the best device.
            revision: the digest of the ONNX file; None: that of the newest engine.
            cache_dir: where engines are kept; None: in the user's cache. Without the service the
                engines found there are used.
            local_files_only: asks no service.

        Raises:
            ServiceError: the service refuses, or cannot be reached and the cache has no such model.
            UnsupportedError: there are engines of the model, but none runs on this device.
            ValueError: an engine's contents are not what its digest says.
            DeviceError: there is no Vulkan device.
        """
        profile = C.device_profile("" if device is None else str(device))
        if os.path.isdir(name):
            return _from_folder(Path(name), profile, device, revision)
        name = os.fspath(name)
        folder = _cache_folder(cache_dir, url, name)
        if not local_files_only:
            try:
                _fetch(name, url, api_key, profile, revision, folder)
            except ServiceError as error:
                away = error.code == "unreachable" or error.status in (502, 503, 504)  # a proxy's
                if not away or not fetch.in_folder(folder):
                    raise
        elif not fetch.in_folder(folder):
            raise ServiceError(0, "not_found", f"the cache has no engine of {name!r} ({folder})")
        return _from_folder(folder, profile, device, revision)


def _cache_folder(cache_dir, url: str | None, name: str) -> Path:
    from .client import DEFAULT_URL

    service = url or os.environ.get("TORCH_VULKAN_SERVICE") or DEFAULT_URL
    if cache_dir:
        root = Path(cache_dir)
    else:  # beside built engines, with the mode that their cache wants
        directory().mkdir(mode=0o700, parents=True, exist_ok=True)
        root = directory() / "models"
    return root / urllib.parse.quote(service.rstrip("/"), safe="") / urllib.parse.quote(
        name, safe="")


def _fetch(name: str, url, api_key, profile, revision, folder: Path) -> None:
    """Puts the engine that fits into the cache."""
    from .client import Client

    with Client(url, api_key) as client:
        fitting = client.artifacts(name, profile.runs_on(), limit=1000)
        if not fitting:
            others = client.artifacts(name, limit=1000)
            raise _none_fits(name, others, profile) if others else ServiceError(
                404, "not_found", f"{client.url} has no engine of a model {name!r}")
        fetch.to_folder(client, _chosen(name, fitting, profile, revision), folder)


def _chosen(name: str, fitting: list[dict], profile, revision: str | None) -> dict:
    """Of manifests that run on the device, the newest first: of one model file the tuned one."""
    revision = revision or fitting[0].get("model_digest")
    of_model = [m for m in fitting if m.get("model_digest") == revision]
    if not of_model:
        raise ServiceError(404, "not_found", f"there is no engine of {name!r} of revision "
                                             f"{revision}")
    ours = profile.tuned_for()
    # max keeps the first of equals, which is the newest.
    return max(of_model, key=lambda m: (bool(m.get("tuned")) and m.get("tuned_for") == ours,
                                        m.get("tuned_for") == ours, m.get("level", 0)))


def _none_fits(name, manifests: list[dict], profile) -> UnsupportedError:
    kinds = sorted({str(m.get("device", m.get("file"))) for m in manifests})
    return UnsupportedError(f"there are engines of {name!s}, but none that runs on "
                            f"{profile.name}: they are for {', '.join(kinds)}")


def _from_folder(folder: Path, profile, device, revision) -> Engine:
    manifests = fetch.in_folder(folder) or _bare(folder)
    if not manifests:
        raise FileNotFoundError(f"{folder} holds no .vke file")
    fitting = [m for m in manifests if m["runs_on"] == profile.runs_on()]
    if not fitting:
        raise _none_fits(folder, manifests, profile)
    chosen = _chosen(str(folder), fitting, profile, revision)
    if "file" in chosen:
        return Engine.load(folder / chosen["file"], device)
    return Engine(fetch.read(folder / fetch.file_name(chosen), chosen["engine_digest"]), device)


def _bare(folder: Path) -> list[dict]:
    """Of .vke files without manifests what the files themselves say, the newest first."""
    paths = sorted(folder.glob("*.vke"), key=lambda path: path.stat().st_mtime, reverse=True)
    found = []
    for path in paths:
        info = C.vke_info(C.split_vke(path.read_bytes())[0])
        found.append({"file": path.name, "runs_on": info["runs_on"],
                      "tuned_for": info["tuned_for"], "model_digest": None})
    return found
