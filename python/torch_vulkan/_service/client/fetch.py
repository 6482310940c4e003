"""Artefacts in folders of this machine: downloaded once, and checked whenever they are read."""

import hashlib
import io
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from ..._base import whole_files
from ..errors import ServiceError
from ..files.onnx_files import source_of
from ..storage import signing

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LONGEST_MANIFEST = 1 << 20


class _Digesting:
    def __init__(self, file, most: float = float("inf")):
        self._file, self._left, self.sha = file, most, hashlib.sha256()

    def write(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            raise ServiceError(0, "bad_digest", "a manifest is too long")
        self.sha.update(data)
        self._file.write(data)


def digest_of(path: Path) -> str:
    """Of the contents of a file."""
    with open(path, "rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def model_digest(path: str | os.PathLike) -> str:
    """Of a model's file and the files that it names, as the service has it."""
    sha = hashlib.sha256()
    for piece in source_of(path).pieces():
        sha.update(piece)
    return f"sha256:{sha.hexdigest()}"


def _is_whole(path: Path, digest: str) -> bool:
    try:
        return digest_of(path) == digest
    except FileNotFoundError:
        return False


def _download(client, digest: str, digesting: _Digesting, progress=None) -> None:
    client.download(digest, digesting, progress)
    if f"sha256:{digesting.sha.hexdigest()}" != digest:
        raise ServiceError(0, "bad_digest", f"what {client.url} sent is not {digest}: it was "
                                            "damaged or changed on its way")


def read(path: Path, digest: str) -> bytes:
    """Raises ValueError if the file is not there or has other contents."""
    data = path.read_bytes() if path.is_file() else b""
    if f"sha256:{hashlib.sha256(data).hexdigest()}" != digest:
        raise ValueError(f"{path} is missing or damaged: its contents are not {digest}")
    return data


def file_name(manifest: dict) -> str:
    """Raises ValueError for what is no digest: it becomes part of a path."""
    digest = str(manifest["engine_digest"])
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"engine_digest: got {digest[:80]!r}, want sha256: and 64 hexadecimal "
                         "digits")
    return digest.replace(":", "-") + ".vke"


def to_folder(client, artifact: dict, folder: Path, trusted: Sequence[str] | None = None,
              progress: Callable[[int, int], None] | None = None) -> None:
    """An engine with its signed manifest beside it, each named by its digest: a folder that
    AutoModel reads without a service.

    Args:
        artifact: what `client.artifacts` says of it; the manifest decides.
        trusted: the keys one of which must have signed it; None: the service's own.
        progress: called with the bytes of the engine that came and their total.

    Raises:
        ServiceError: what came is not what its digest says.
        ValueError: the manifest is not signed by a trusted key, or is another's.
    """
    envelope = io.BytesIO()
    _download(client, artifact["manifest_digest"], _Digesting(envelope, _LONGEST_MANIFEST))
    keys = [client.signing_key()] if trusted is None else trusted
    manifest = signing.opened(envelope.getvalue(), keys)
    for name in ("model", "engine_digest"):
        if manifest.get(name) != artifact[name]:
            raise ValueError(f"{client.url}: the signed manifest is that of another artefact: "
                             f"{name} is {manifest.get(name)!r}, not {artifact[name]!r}")
    engine = folder / file_name(manifest)
    folder.mkdir(parents=True, exist_ok=True)
    if not _is_whole(engine, manifest["engine_digest"]):
        with whole_files.written(engine, "AutoModel") as file:
            _download(client, manifest["engine_digest"], _Digesting(file), progress)
    beside = folder / (artifact["manifest_digest"].replace(":", "-") + ".json")  # as was compared
    with whole_files.written(beside, "AutoModel") as file:
        file.write(envelope.getvalue())


def in_folder(folder: Path, trusted: Sequence[str] | None) -> list[dict]:
    """The manifests in a folder, those of the newest model file first; where `trusted` is given,
    those that one of these keys signed. Raises NotTrusted if there are manifests, but none of
    these."""
    found, refused = [], None
    for path in folder.glob("*.json"):
        data = path.read_bytes()
        try:
            manifest = signing.opened(data, None)
        except ValueError:
            continue  # another file
        if not {"engine_digest", "runs_on"} <= manifest.keys():
            continue
        try:
            signing.opened(data, trusted)
        except signing.NotTrusted as error:
            refused = f"{path}: {error}"  # another service's, or from before it had another key
            continue
        found.append({name: value for name, value in manifest.items() if name != "file"})
    if refused and not found:
        raise signing.NotTrusted(refused)
    return _newest_file_first(found)


def _newest_file_first(manifests: list[dict]) -> list[dict]:
    """In the service's order: the first engine of a model file on a device gives its place."""
    def file(manifest):
        return tuple(str(manifest.get(name)) for name in ("model", "device", "model_digest"))

    first = {}
    newest = sorted(manifests, key=lambda manifest: manifest.get("created", 0), reverse=True)
    for manifest in newest:
        first[file(manifest)] = manifest.get("created", 0)
    return sorted(newest, key=lambda manifest: first[file(manifest)], reverse=True)
