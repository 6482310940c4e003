"""The service from Python."""

from __future__ import annotations  # a method is named list

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ..errors import ServiceError, package
from ..files.onnx_files import source_of

DEFAULT_URL = "http://127.0.0.1:8600"
ENDED = ("COMPLETED", "FAILED", "STOPPED")
_PIECE = 1 << 20
_TIMEOUT_S = 60
_POLL_S, _LONGEST_POLL_S = 0.2, 5
_LONGEST_WAIT_S = 300  # that a service may ask for


class Client:
    """Asks a compile service. Threads may share a client.

    Args:
        url: of the service; None: the environment's TORCH_VULKAN_SERVICE, else the default of
            `make service`.
        api_key: None: the environment's TORCH_VULKAN_API_KEY.
        ca: a file of the certificates that are trusted, for a service with one of its own; None:
            the environment's TORCH_VULKAN_SERVICE_CA, else the usual authorities.

    Methods raise ServiceError where the service refuses or cannot be reached.
    """

    __module__ = "torch_vulkan.service"  # as users know it

    def __init__(self, url: str | None = None, api_key: str | None = None,
                 ca: str | os.PathLike | None = None):
        self._httpx = package("httpx")
        self.url = (url or os.environ.get("TORCH_VULKAN_SERVICE") or DEFAULT_URL).rstrip("/")
        key = api_key or os.environ.get("TORCH_VULKAN_API_KEY", "")
        if not key.isascii() or any(not 32 < ord(letter) < 127 for letter in key):
            raise ValueError("api_key: want tv_ and letters, digits, _ and -")
        try:
            self._http = self._httpx.Client(
                base_url=self.url, timeout=_TIMEOUT_S, follow_redirects=False, trust_env=False,
                verify=self._trusted(ca or os.environ.get("TORCH_VULKAN_SERVICE_CA")),
                headers={"Authorization": f"Bearer {key}"} if key else {})
        except (self._httpx.InvalidURL, self._httpx.UnsupportedProtocol) as error:
            raise ValueError(f"url: got {self.url!r}: {error}") from None

    def _trusted(self, ca):
        if self.url.startswith("http://"):
            return False  # certificates take long to load
        if not ca:
            return True
        import ssl

        try:
            return ssl.create_default_context(cafile=ca)
        except (ssl.SSLError, OSError) as error:
            raise ValueError(f"ca: {ca}: {error}") from None

    def __repr__(self):
        return f"Client({self.url!r})"

    def close(self) -> None:
        """Closes the connections to the service; the client cannot be used any more."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_error) -> None:
        self.close()

    def submit(self, model: str | os.PathLike | bytes, devices: Sequence[str], *,
               name: str | None = None, job_id: str | None = None,
               options: Mapping[str, object] | None = None, notify: str | None = None,
               weights: str | os.PathLike | None = None,
               progress: Callable[[int, int], None] | None = None) -> dict:
        """Uploads an ONNX file, or a graph file, and asks for its engines.

        Args:
            model: a path or the bytes of an ONNX file, or of a graph file that tv.export_graph
                wrote. The files of external data that an ONNX file names are sent with it; bytes
                have none beside them.
            devices: names, as `devices` gives them; a task for each.
            name: under which AutoModel finds the engines ("team/net"); None: the file's, without
                its ending.
            job_id: the same id with the same request again gives the same job, so a request whose
                answer was lost may be repeated; None: one is made.
            options: `optimization_level` (0 to 5), `enabled_precisions` (["float16"] or
                ["bfloat16"]), `workspace_size`, `inputs` (name → (min, opt, max) of each
                dimension).
            notify: a URL that a webhook is sent to when the job has ended.
            weights: a .safetensors file, whose tensors take the place of the model's initialisers
                and inputs, or the graph file's weights, of the same names.
            progress: called with the bytes sent and their total.

        Returns:
            The job, as `details` gives it.
        """
        if isinstance(devices, str):
            raise ValueError(f"devices: got the text {devices!r}, want a list of names")
        if name is None:
            if isinstance(model, bytes):
                raise ValueError("name: bytes have none; give one")
            name = Path(model).stem
        digest = self.upload(model, progress, weights=weights)
        asked = {"model": name, "model_digest": digest, "devices": [*devices],
                 "options": dict(options or {})}
        asked |= _given(job_id=job_id, notify=notify)
        return self._json("POST", "/v1/jobs", json=asked)

    def upload(self, model: str | os.PathLike | bytes,
               progress: Callable[[int, int], None] | None = None, *,
               weights: str | os.PathLike | None = None) -> str:
        """Sends a model, with the files that it names and its weights; returns the digest of
        all of it, which names it in the store.

        Raises:
            ValueError, OSError: a file that it names lies elsewhere, is a link, or is not there.
        """
        if isinstance(model, bytes):
            if weights is not None:
                raise ValueError("weights: the model is given as bytes, want its path, too")
            return self._upload("/v1/models", model, progress)
        source = source_of(model, weights)
        return self._send("/v1/models", source.pieces(), source.size_bytes, progress)

    def _upload(self, place: str, model: str | os.PathLike | bytes, progress) -> str:
        if isinstance(model, bytes):
            return self._send(place, iter([model]), len(model), progress)
        return self._send(place, _pieces(Path(model)), os.path.getsize(model), progress)

    def _send(self, place: str, pieces: Iterator[bytes], total: int, progress) -> str:
        def sent() -> Iterator[bytes]:
            done = 0
            for piece in pieces:
                yield piece
                done += len(piece)
                if progress:
                    progress(done, total)

        headers = {"Content-Length": str(total), "Content-Type": "application/octet-stream"}
        return self._json("POST", place, content=sent(), headers=headers)["digest"]

    def list(self, state: str | None = None, limit: int = 100,
             before: int | None = None) -> list[dict]:
        """Jobs, the newest first, without their tasks; `before`: a job's number, to go on from."""
        return self._json("GET", "/v1/jobs", params=_given(
            state=state, limit=limit, before=before))["jobs"]

    def details(self, job_id: str) -> dict:
        """A job with its tasks, their states, reasons and artefacts."""
        return self._json("GET", f"/v1/jobs/{_quoted(job_id)}")

    def wait(self, job_id: str, timeout: float | None = None,
             progress: Callable[[int, int], None] | None = None) -> dict:
        """The job when it has ended: asks less and less often, and as the service says where that
        is too often. `progress`: called with the number of its tasks that ended, and of all.
        Raises TimeoutError after `timeout` seconds."""
        end = float("inf") if timeout is None else time.monotonic() + timeout
        pause, state = _POLL_S, "unknown"
        while True:
            told = 0.0
            try:
                job = self.details(job_id)
                if progress:
                    ended = sum(task["state"] in ENDED for task in job["tasks"])
                    total = len(job["tasks"])  # which is reached with the job's end
                    progress(total if job["state"] in ENDED else min(ended, total - 1), total)
                if job["state"] in ENDED:
                    return job
                state = job["state"]
            except ServiceError as error:
                if error.status != 429:
                    raise
                told = _seconds((error.headers or {}).get("Retry-After"))
            if (left := end - time.monotonic()) <= 0:
                raise TimeoutError(f"job {job_id} is {state} after {timeout} s")
            time.sleep(min(max(pause, told), left))
            pause = min(1.5 * pause, _LONGEST_POLL_S)

    def logs(self, job_id: str, follow: bool = False, device: str | None = None) -> Iterator[str]:
        """Pieces of what the job's tasks printed; `follow`: until the job has ended."""
        # A task may print nothing for long.
        timeout = self._patient() if follow else self._httpx.Timeout(_TIMEOUT_S)
        with self._sent("GET", f"/v1/jobs/{_quoted(job_id)}/logs", timeout=timeout,
                        params=_given(follow=follow, device=device)) as answer:
            yield from self._read(answer.iter_text())

    def cancel(self, job_id: str) -> dict:
        """Asks for a job's end; returns the job, STOPPING or ended."""
        return self._json("DELETE", f"/v1/jobs/{_quoted(job_id)}")

    def artifacts(self, model: str | None = None, runs_on: str | None = None,
                  limit: int = 100) -> list[dict]:
        """Engines, the newest first: of a model (those of its newest file first), and those that
        run on a kind of device."""
        return self._json("GET", "/v1/artifacts", params=_given(
            model=model, runs_on=runs_on, limit=limit))["artifacts"]

    def download(self, digest: str, file,
                 progress: Callable[[int, int], None] | None = None) -> None:
        """Writes the bytes of an artefact to a binary file. Compare their digest (`AutoModel`
        does). `progress`: called with the bytes that came and their total."""
        with self._sent("GET", f"/v1/artifacts/{_quoted(digest)}") as answer:
            done, total = 0, int(answer.headers.get("content-length", 0))
            for piece in self._read(answer.iter_bytes(_PIECE)):
                file.write(piece)
                done += len(piece)
                if progress and total:
                    progress(done, total)

    def publish(self, engine: str | os.PathLike | bytes, model: str, *,
                model_digest: str | None = None, level: int = 0,
                options: Mapping[str, object] | None = None, engine_key: str = "",
                builder: str = "", progress: Callable[[int, int], None] | None = None) -> dict:
        """Makes an engine that was built elsewhere an artefact, which the service signs. The same
        again gives the same artefact.

        Args:
            engine: a path or the bytes of a .vke file, with its weights.
            model: the name under which AutoModel finds it.
            model_digest: "sha256:…" of the ONNX file that it was built from, so that it stands
                beside the service's own engines of that file; None: the engine's own digest.
            level: at which it was tuned; 0: it was not.
            options: those that it was built with; one that is not given is unknown, and no
                engine for those who ask for a value of it.
            engine_key, builder: where they are known, for the manifest.
        """
        digest = self._upload("/v1/engines", engine, progress)
        asked = {"model": model, "model_digest": model_digest or digest, "engine_digest": digest,
                 "level": level, "engine_key": engine_key, "builder": builder}
        return self._json("POST", "/v1/artifacts", json=asked | _given(
            options=options and dict(options)))

    def signing_key(self) -> str:
        """The public key that manifests are signed for: "ed25519:…"."""
        return self._json("GET", "/v1/signing-key")["key"]

    def webhooks(self, state: str | None = None, limit: int = 100) -> list[dict]:
        """Events of jobs that ended, the newest first; `state`: PENDING, DELIVERED or DEAD."""
        return self._json("GET", "/v1/webhooks", params=_given(state=state, limit=limit))[
            "webhooks"]

    def retry_webhook(self, event_id: str) -> dict:
        """Sends an event again, a dead one too."""
        return self._json("POST", f"/v1/webhooks/{_quoted(event_id)}/retry")

    def webhook_secret(self) -> str:
        """What the events of this key's jobs are signed with: "whsec_…"."""
        return self._json("GET", "/v1/webhooks/secret")["secret"]

    def collect(self, *, job_days: float | None = None, engines: int | None = None,
                upload_days: float | None = None, dry_run: bool = False) -> dict:
        """Removes jobs that ended so many days ago, engines beyond those of the newest `engines`
        model files of each model and device, and files that nothing names.

        Returns:
            Numbers of `jobs`, `artifacts`, `files` and `bytes`, and the first `names`;
            `dry_run`: of what would be removed.
        """
        return self._json("POST", "/v1/gc", timeout=self._patient(), json=_given(
            job_days=job_days, engines=engines, upload_days=upload_days, dry_run=dry_run))

    def devices(self) -> list[dict]:
        """The devices that can be compiled for."""
        return self._json("GET", "/v1/devices")["devices"]

    def add_device(self, name: str, profile: Mapping[str, object]) -> dict:
        """Registers a device by the device profile that `python -m torch_vulkan devices --json`
        prints on a machine that has it."""
        return self._json("PUT", f"/v1/devices/{_quoted(name)}", json={"profile": dict(profile)})

    def timings(self, name: str) -> bytes:
        """What the tuner measured on a kind of device: a file for `timing_cache_path`."""
        with self._sent("GET", f"/v1/timings/{_quoted(name)}") as answer:
            return b"".join(self._read(answer.iter_bytes()))

    def add_timings(self, name: str, data: bytes) -> int:
        """Gives the service what was measured on such a device; returns how many entries are
        new."""
        return self._json("POST", f"/v1/timings/{_quoted(name)}", content=data)["changed"]

    def keys(self) -> list[dict]:
        """API keys, without their secrets."""
        return self._json("GET", "/v1/keys")["keys"]

    def create_key(self, name: str, scopes: Sequence[str]) -> dict:
        """A new key; the item "key" is shown this once."""
        return self._json("POST", "/v1/keys", json={"name": name, "scopes": [*scopes]})

    def revoke_key(self, key_id: str) -> None:
        """Ends an API key, by its id in `keys()`: the service refuses it from now on."""
        self._json("DELETE", f"/v1/keys/{_quoted(key_id)}")

    def health(self) -> dict:
        """What the service says of itself; it asks for no API key."""
        return self._json("GET", "/v1/health")

    def _patient(self):
        """For answers that may take long to begin or to go on."""
        return self._httpx.Timeout(_TIMEOUT_S, read=None)

    def _json(self, method: str, path: str, **given) -> dict:
        with self._sent(method, path, **given) as answer:
            text = b"".join(self._read(answer.iter_bytes()))
        try:
            return self._httpx.Response(200, content=text).json()
        except ValueError:
            raise ServiceError(answer.status_code, "no_service", f"{self.url} answers, but is no "
                                                                 "compile service") from None

    def _sent(self, method: str, path: str, **given):
        return _Answer(self, method, path, given)

    def _read(self, pieces):
        try:
            yield from pieces
        except self._httpx.TransportError as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: Exception) -> ServiceError:
        return ServiceError(0, "unreachable", f"no answer from {self.url}: "
                                              f"{str(error) or type(error).__name__}", [
            "TORCH_VULKAN_SERVICE says where the service is; `tv-compile serve` starts one"])


class _Answer:
    """An answer that is read in pieces; a refusal is raised."""

    def __init__(self, client: Client, method: str, path: str, given: dict):
        self._client, self._asked = client, (method, path)
        self._stream = client._http.stream(method, path, **given)

    def __enter__(self):
        try:
            answer = self._stream.__enter__()
        except self._client._httpx.TransportError as error:
            raise self._client._unreachable(error) from None
        if answer.status_code < 300:
            return answer
        try:
            raise _refusal(answer, self._client.url)
        finally:
            self._stream.__exit__(None, None, None)

    def __exit__(self, *error):
        return self._stream.__exit__(*error)


def _refusal(answer, url: str) -> ServiceError:
    try:
        answer.read()
        error = answer.json()["error"]
        return ServiceError(answer.status_code, error["code"], error["message"], error["details"],
                            {"Retry-After": answer.headers.get("Retry-After")})
    except (ValueError, KeyError, TypeError):
        return ServiceError(answer.status_code, "no_service",
                            f"{url} answers with status {answer.status_code}, without a reason")


def _seconds(text: str | None) -> float:
    """Of Retry-After, within reason; 0 for a date, or what is none."""
    return min(float(text), _LONGEST_WAIT_S) if text and re.fullmatch("[0-9]{1,9}", text) else 0


def _pieces(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def _given(**values) -> dict:
    return {name: value for name, value in values.items() if value is not None}


def _quoted(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")
