"""Signed manifests: DSSE envelopes (github.com/secure-systems-lab/dsse, version 1.0.2) with Ed25519
signatures.

A public key is written "ed25519:" and the base64 of its 32 bytes.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from ..errors import package
from . import private_file

TYPE = "application/vnd.torch-vulkan.manifest+json"
_PREFIX = "ed25519:"


def _signed(payload: bytes) -> bytes:
    """What a signature is of: DSSE's pre-authentication encoding."""
    return b"DSSEv1 %d %s %d %s" % (len(TYPE), TYPE.encode(), len(payload), payload)


def _ed25519():
    return package("cryptography.hazmat.primitives.asymmetric.ed25519")


class NotTrusted(ValueError):
    """None of the trusted keys signed a manifest."""


class Signer:
    """A service's signing key, in a file of its folder; the first start makes it."""

    def __init__(self, path: Path):
        serialization = package("cryptography.hazmat.primitives.serialization")

        def made() -> bytes:
            return _ed25519().Ed25519PrivateKey.generate().private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption())

        self._key = serialization.load_pem_private_key(private_file.kept(path, made), None)
        if not isinstance(self._key, _ed25519().Ed25519PrivateKey):
            raise ValueError(f"{path} is no Ed25519 key")
        self.public = _PREFIX + base64.b64encode(self._key.public_key().public_bytes_raw()).decode()

    def envelope(self, manifest: dict) -> bytes:
        """The manifest, signed."""
        payload = json.dumps(manifest, sort_keys=True).encode()
        return json.dumps({
            "payloadType": TYPE, "payload": base64.b64encode(payload).decode(),
            "signatures": [{"keyid": key_id(self.public),
                            "sig": base64.b64encode(self._key.sign(_signed(payload))).decode()}],
        }).encode()


def _raw(public: str) -> bytes:
    """Raises ValueError for what is no public key."""
    try:
        raw = base64.b64decode(public.removeprefix(_PREFIX), validate=True)
    except ValueError:
        raw = b""
    if not public.startswith(_PREFIX) or len(raw) != 32:
        raise ValueError(f"trusted_keys: got {public[:80]!r}, want {_PREFIX} and the base64 of 32 "
                         "bytes, as `tv-compile keys --signing` prints it")
    return raw


def key_id(public: str) -> str:
    return hashlib.sha256(_raw(public)).hexdigest()


def check_keys(keys: Sequence[str]) -> list[str]:
    """The keys as a list. Raises ValueError for what is no public key."""
    if isinstance(keys, str):
        raise ValueError("trusted_keys: got a text, want a list of keys")
    for key in keys:
        _raw(key)
    return [*keys]


def opened(envelope: bytes, trusted: Sequence[str] | None) -> dict:
    """The manifest in an envelope; `trusted` None: signatures are not compared.

    Raises:
        ValueError: it is no envelope.
        NotTrusted: none of the trusted keys signed it.
    """
    try:
        value = json.loads(envelope)
        payload = base64.b64decode(value["payload"], validate=True)
        signatures = [base64.b64decode(made["sig"], validate=True) for made in value["signatures"]]
        is_ours = value["payloadType"] == TYPE
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError("this is no signed manifest") from None
    if not is_ours:
        raise ValueError(f"this is no manifest of an engine: {value['payloadType']!r}")
    if trusted is not None and not any(_is_by(key, signature, payload)
                                       for key in trusted for signature in signatures):
        raise NotTrusted("the manifest is not signed by a trusted key")
    try:
        manifest = json.loads(payload)
    except (ValueError, RecursionError):
        manifest = None
    if not isinstance(manifest, dict):
        raise ValueError("this is no signed manifest")
    return manifest


def _is_by(public: str, signature: bytes, payload: bytes) -> bool:
    invalid = package("cryptography.exceptions").InvalidSignature
    try:
        _ed25519().Ed25519PublicKey.from_public_bytes(_raw(public)).verify(signature,
                                                                           _signed(payload))
    except invalid:
        return False
    return True
