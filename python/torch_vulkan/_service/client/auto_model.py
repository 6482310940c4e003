"""tv.AutoModel: the engine of a model that fits this device."""

import os
import urllib.parse
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..._base import whole_files
from ..._base.errors import UnsupportedError
from ..._engines.engine import Engine
from ..._native import C
from ...cache import directory
from ..errors import ServiceError
from ..storage import signing
from . import fetch, local_build
from .client import DEFAULT_URL, Client


class AutoModel:
    """Finds the engine of a model that fits this device. It has no instances: `from_pretrained`
    returns an Engine."""

    __module__ = "torch_vulkan.service"  # as users know it

    def __init__(self):
        raise TypeError("call tv.AutoModel.from_pretrained")

    @staticmethod
    def from_pretrained(name: str | os.PathLike, *, url: str | None = None,
                        api_key: str | None = None, device: int | str | None = None,
                        revision: str | None = None, cache_dir: str | os.PathLike | None = None,
                        local_files_only: bool = False,
                        trusted_keys: Sequence[str] | None = None,
                        source: str | os.PathLike | None = None,
                        options: Mapping[str, object] | None = None,
                        register: bool = False) -> Engine:
        """Loads the newest engine of a model that runs on this device. Of several that were built
        from one model file it loads the one that was tuned for this device.

        Args:
            name: a model's name in the service ("team/net"), or a folder with engines, as
                `tv-compile artifacts --download` writes it or with .vke files alone. A folder of
                that name comes first.
            url, api_key: of the service (tv.service.Client).
            device: index, part of a name or UUID; None: the best device.
            revision: the digest of the model's file, or of all its files; None: that of `source`,
                else of the newest: the one whose first engine came last.
            cache_dir: where engines are kept; None: in the user's cache. Without the service the
                engines found there are used.
            local_files_only: asks no service.
            trusted_keys: public keys ("ed25519:…"), one of which must have signed the engine's
                manifest; None: those of the environment's TORCH_VULKAN_TRUSTED_KEYS, with commas
                between, else the key that the service had when it was asked first. A folder's
                signatures count where keys are given.
            source: the ONNX file, its external data beside it, or the graph file. Where there is
                no engine of it for this device, one is built here, and kept.
            options: only engines that were built with these (Client.submit); and how to build.
            register: publishes what was built here, so that other machines find it.

        Raises:
            ServiceError: the service refuses, or cannot be reached and the cache has no such model.
            UnsupportedError: there are engines of the model, but none runs on this device.
            ValueError: an engine's contents are not what its digest says, its manifest is not
                signed by a trusted key, or a folder has engines of several models.
            DeviceError: there is no Vulkan device.
        """
        profile = C.device_profile("" if device is None else str(device))
        trusted = _given_keys(trusted_keys)
        if register and source is None:
            raise ValueError("register: want the source that an engine is built from")
        if source is not None and revision is None:
            revision = fetch.model_digest(source)
        wish = _Wish(os.fspath(name), profile, device, revision,
                     local_build.plain_options(options or {}))
        if os.path.isdir(name):
            return _from_folder(Path(name), wish, trusted)
        root = _cache_root(cache_dir, url)
        folder = root / urllib.parse.quote(wish.name, safe="")
        client = None if local_files_only else Client(url, api_key)
        try:
            if client and (newest := _fetch(client, wish, folder, trusted)):
                wish = replace(wish, revision=newest)
            return _from_cache(wish, folder, trusted)
        except (ServiceError, UnsupportedError) as error:
            if source is None or not (_is_away(error) or _is_missing(error)):
                raise
            wanted = local_build.Wanted(wish.name, Path(source), wish.options)
            return Engine(_built(wanted, profile, folder, client if register else None), device)
        finally:
            if client:
                client.close()


@dataclass(frozen=True)
class _Wish:
    """What from_pretrained was asked for; `options`: those that an engine has to have."""

    name: str
    profile: object
    device: int | str | None
    revision: str | None
    options: dict


def _given_keys(trusted_keys) -> list[str] | None:
    if trusted_keys is None and (named := os.environ.get("TORCH_VULKAN_TRUSTED_KEYS")):
        trusted_keys = [key.strip() for key in named.split(",")]
    return None if trusted_keys is None else signing.check_keys(trusted_keys)


def _cache_root(cache_dir, url: str | None) -> Path:
    """What is kept of one service."""
    service = url or os.environ.get("TORCH_VULKAN_SERVICE") or DEFAULT_URL
    if cache_dir:
        root = Path(cache_dir)
    else:  # beside built engines, with the mode that their cache wants
        directory().mkdir(mode=0o700, parents=True, exist_ok=True)
        root = directory() / "models"
    return root / urllib.parse.quote(service.rstrip("/"), safe="")


def _is_away(error: Exception) -> bool:
    """502 to 504 are a proxy's."""
    return isinstance(error, ServiceError) and (
        error.code == "unreachable" or error.status in (502, 503, 504))


def _is_missing(error: Exception) -> bool:
    return isinstance(error, UnsupportedError) or getattr(error, "code", "") == "not_found"


def _pinned(folder: Path) -> Path:
    """Where the key of a service is noted; models' names begin otherwise."""
    return folder.parent / ".signing-key"


def _trusted(folder: Path, given: list[str] | None) -> list[str] | None:
    """The keys that count: those that were given, else that which the service had first."""
    if given is not None:
        return given
    path = _pinned(folder)
    return signing.check_keys([path.read_text().strip()]) if path.is_file() else None


def _fetch(client: Client, wish: _Wish, folder: Path, given) -> str | None:
    """Puts the engine that fits into the cache; returns its revision. Without an answer the cache
    stays as it is, if it has engines of the model."""
    try:
        if _trusted(folder, given) is None:
            (key,) = signing.check_keys([client.signing_key()])
            folder.parent.mkdir(parents=True, exist_ok=True)
            whole_files.write_text(_pinned(folder), key, "AutoModel")
        fitting = client.artifacts(wish.name, wish.profile.runs_on(), limit=1000)
        if not fitting:
            others = client.artifacts(wish.name, limit=1000)
            raise _none_fits(wish, others) if others else ServiceError(
                404, "not_found", f"{client.url} has no engine of a model {wish.name!r}")
        chosen = _chosen(wish, fitting)
        if chosen["model"] != wish.name:
            raise ValueError(f"{client.url}: asked for {wish.name}, and got {chosen['model']!r}")
        fetch.to_folder(client, chosen, folder, _trusted(folder, given))
        return chosen.get("model_digest")
    except ServiceError as error:
        if not _is_away(error) or not [*folder.glob("*.json")]:
            raise
        return None
    except signing.NotTrusted as error:
        hint = "" if given is not None else (
            f": the service has another key than when it was asked first; if that is right, "
            f"remove {_pinned(folder)}")
        raise ValueError(f"{client.url}: {wish.name}: {error}{hint}") from None


def _from_cache(wish: _Wish, folder: Path, given) -> Engine:
    if not [*folder.glob("*.json")]:
        raise ServiceError(0, "not_found", f"the cache has no engine of {wish.name!r} ({folder})")
    return _from_folder(folder, wish, _trusted(folder, given))


def _built(wanted: local_build.Wanted, profile, folder: Path, client: Client | None) -> bytes:
    """Builds, or takes what was built before; with a client, publishes it. A service that is away
    is a warning: the engine is there."""
    vke, manifest = local_build.engine(wanted, profile, folder / "built")
    if client:
        try:
            client.publish(vke, wanted.name, model_digest=manifest["model_digest"],
                           level=manifest["level"], options=manifest["options"],
                           engine_key=manifest["engine_key"], builder=manifest["builder"])
        except ServiceError as error:
            if not _is_away(error):
                raise
            warnings.warn(f"torch_vulkan: {wanted.name} was not registered: {error}", stacklevel=3)
    return vke


def _chosen(wish: _Wish, fitting: list[dict]) -> dict:
    """Of manifests that run on the device, those of the newest file first: of one file the tuned
    one."""
    revision = wish.revision or fitting[0].get("model_digest")
    of_model = [m for m in fitting if m.get("model_digest") == revision]
    if not of_model:
        raise ServiceError(404, "not_found", f"there is no engine of {wish.name!r} of revision "
                                             f"{revision}")
    of_model = [m for m in of_model if wish.options.items() <= (m.get("options") or {}).items()]
    if not of_model:
        raise ServiceError(404, "not_found", f"there is no engine of {wish.name!r} of revision "
                                             f"{revision} with the options {wish.options}")
    ours = wish.profile.tuned_for()
    # max keeps the first of equals, which is the newest.
    return max(of_model, key=lambda m: (bool(m.get("tuned")) and m.get("tuned_for") == ours,
                                        m.get("tuned_for") == ours, m.get("level", 0)))


def _none_fits(wish: _Wish, manifests: list[dict]) -> UnsupportedError:
    kinds = sorted({str(m.get("device", m.get("file"))) for m in manifests})
    return UnsupportedError(f"there are engines of {wish.name}, but none that runs on "
                            f"{wish.profile.name}: they are for {', '.join(kinds)}")


def _from_folder(folder: Path, wish: _Wish, trusted) -> Engine:
    manifests = fetch.in_folder(folder, trusted)
    if not manifests and trusted is not None:
        raise ValueError(f"{folder} holds no signed manifest")
    manifests = manifests or _bare(folder)
    if not manifests:
        raise FileNotFoundError(f"{folder} holds no .vke file")
    fitting = [m for m in manifests if m["runs_on"] == wish.profile.runs_on()]
    if not fitting:
        raise _none_fits(wish, manifests)
    _check_one_model(folder, wish, fitting)
    chosen = _chosen(wish, fitting)
    if "file" in chosen:
        return Engine.load(folder / chosen["file"], wish.device)
    vke = fetch.read(folder / fetch.file_name(chosen), chosen["engine_digest"])
    return Engine(vke, wish.device, check_addresses=chosen.get("check_addresses") is True)


def _check_one_model(folder: Path, wish: _Wish, fitting: list[dict]) -> None:
    """The newest engine is not what was meant where it may be another model's."""
    if wish.revision is not None or len({str(m.get("model_digest")) for m in fitting}) == 1:
        return
    names = sorted({str(m["model"]) for m in fitting if "model" in m})
    if len(names) > 1:
        raise ValueError(f"{folder} holds engines of several models ({', '.join(names[:10])}): "
                         "give the revision or source, or a folder for each")


def _bare(folder: Path) -> list[dict]:
    """Of .vke files without manifests what the files themselves say, the newest first."""
    paths = sorted(folder.glob("*.vke"), key=lambda path: path.stat().st_mtime, reverse=True)
    found = []
    for path in paths:
        info = C.vke_info(C.split_vke(path.read_bytes())[0])
        found.append({"file": path.name, "runs_on": info["runs_on"],
                      "tuned_for": info["tuned_for"], "model_digest": None})
    return found
