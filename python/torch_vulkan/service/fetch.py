"""Artefacts in folders of this machine: downloaded once, and checked whenever they are read."""

import hashlib
import json
import re
from pathlib import Path

from .._base import whole_files
from .errors import ServiceError

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class _Digesting:
    def __init__(self, file):
        self._file, self.sha = file, hashlib.sha256()

    def write(self, data: bytes) -> None:
        self.sha.update(data)
        self._file.write(data)


def is_whole(path: Path, digest: str) -> bool:
    """Whether the file is there, with these contents."""
    try:
        with open(path, "rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}" == digest
    except FileNotFoundError:
        return False


def to_file(client, digest: str, path: Path) -> None:
    """Downloads an artefact unless it is there. Raises ServiceError if its digest is another."""
    if is_whole(path, digest):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_files.written(path, "AutoModel") as file:
        digesting = _Digesting(file)
        client.download(digest, digesting)
        if f"sha256:{digesting.sha.hexdigest()}" != digest:
            raise ServiceError(0, "bad_digest", f"what {client.url} sent is not {digest}: it was "
                                                "damaged or changed on its way")


def read(path: Path, digest: str) -> bytes:
    """Raises ValueError if the file is not there or has other contents."""
    data = path.read_bytes() if path.is_file() else b""
    if f"sha256:{hashlib.sha256(data).hexdigest()}" != digest:
        raise ValueError(f"{path} is missing or damaged: its contents are not {digest}")
    return data


def file_name(artifact: dict) -> str:
    """Raises ValueError for what is no digest: it becomes part of a path."""
    digest = str(artifact["engine_digest"])
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"engine_digest: got {digest[:80]!r}, want sha256: and 64 hexadecimal "
                         "digits")
    return digest.replace(":", "-") + ".vke"


def to_folder(client, artifact: dict, folder: Path) -> None:
    """An engine with its manifest beside it: a folder that AutoModel reads without a service."""
    engine = folder / file_name(artifact)
    to_file(client, artifact["engine_digest"], engine)
    whole_files.write_text(engine.with_suffix(".json"), json.dumps(artifact, indent=1), "AutoModel")


def in_folder(folder: Path) -> list[dict]:
    """The manifests in a folder, the newest first."""
    found = []
    for path in folder.glob("*.json"):
        try:
            manifest = json.loads(path.read_text())
        except ValueError:
            continue
        if isinstance(manifest, dict) and {"engine_digest", "runs_on"} <= manifest.keys():
            found.append({name: value for name, value in manifest.items() if name != "file"})
    return sorted(found, key=lambda manifest: manifest.get("created", 0), reverse=True)
