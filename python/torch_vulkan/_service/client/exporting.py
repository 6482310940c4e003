"""Engines for other registries: OCI artefacts in a layout of files, and MLflow's model registry.

The layout is that of the OCI image specification, version 1.1 (image-layout.md; artefacts as
manifest.md has them): `oras cp --from-oci-layout DIR:TAG REGISTRY/NAME:TAG` and its like push it.
"""

import hashlib
import json
import re
import tempfile
from pathlib import Path

from ..._base import whole_files
from ..errors import ServiceError, package
from . import fetch

ENGINE_TYPE = "application/vnd.torch-vulkan.engine.v1"
MANIFEST_TYPE = "application/vnd.torch-vulkan.manifest.v1+json"
_OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_EMPTY_TYPE, _EMPTY = "application/vnd.oci.empty.v1+json", b"{}"
_TAGS = ("model", "model_digest", "device", "level", "engine_digest", "manifest_digest")
_LONGEST_TAG = 5000


def _downloaded(client, artifact: dict, folder: Path) -> tuple[Path, Path]:
    """An engine and its signed manifest, both compared."""
    fetch.to_folder(client, artifact, folder)
    return (folder / fetch.file_name(artifact),
            folder / (artifact["manifest_digest"].replace(":", "-") + ".json"))


class _Layout:
    """An OCI image layout in a folder; what is there already stays."""

    def __init__(self, folder: Path):
        self._folder, self._index = folder, folder / "index.json"
        (folder / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)
        whole_files.write_text(folder / "oci-layout", '{"imageLayoutVersion": "1.0.0"}', "export")

    def blob(self, media_type: str, data: bytes, title: str = "") -> dict:
        """Keeps the bytes; returns their descriptor."""
        digest = hashlib.sha256(data).hexdigest()
        with whole_files.written(self._folder / "blobs" / "sha256" / digest, "export") as file:
            file.write(data)
        named = {"annotations": {"org.opencontainers.image.title": title}} if title else {}
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data), **named}

    def name(self, tag: str, descriptor: dict) -> None:
        """Lists a manifest under a tag, in place of what had it."""
        try:
            index = json.loads(self._index.read_text())
            others = [one for one in index["manifests"]
                      if one.get("annotations", {}).get("org.opencontainers.image.ref.name") != tag]
        except FileNotFoundError:
            others = []
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(f"export: {self._index} is no index of an OCI layout") from None
        whole_files.write_text(self._index, json.dumps({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [*others, descriptor | {"annotations": {
                "org.opencontainers.image.ref.name": tag}}]}, indent=1), "export")


def tag_of(artifact: dict) -> str:
    """MODEL-DEVICE-tuned-1234567890ab, as tags of registries may be."""
    kind = "tuned" if artifact["tuned"] else "untuned"
    head = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{artifact['model']}-{artifact['device']}")[:90]
    return f"{head}-{kind}-{artifact['engine_digest'].removeprefix('sha256:')[:12]}"


def to_oci(client, artifacts: list[dict], folder: Path) -> list[str]:
    """Writes engines as OCI artefacts; returns their tags.

    Raises:
        ServiceError, ValueError: an engine is not what its signed manifest says (fetch.to_folder),
            or the folder holds something else.
    """
    layout, tags = _Layout(folder), []
    for artifact in artifacts:
        with tempfile.TemporaryDirectory() as name:
            engine, manifest = _downloaded(client, artifact, Path(name))
            layers = [layout.blob(ENGINE_TYPE, engine.read_bytes(), engine.name),
                      layout.blob(MANIFEST_TYPE, manifest.read_bytes(), manifest.name)]
        tag = tag_of(artifact)
        layout.name(tag, layout.blob(_OCI_MANIFEST, json.dumps({
            "schemaVersion": 2, "mediaType": _OCI_MANIFEST, "artifactType": ENGINE_TYPE,
            "config": layout.blob(_EMPTY_TYPE, _EMPTY), "layers": layers,
            "annotations": {f"org.torch-vulkan.{field.replace('_', '-')}": str(artifact[field])
                            for field in (*_TAGS, "runs_on", "tuned_for")}},
            sort_keys=True).encode()))
        tags.append(tag)
    return tags


def to_mlflow(client, artifacts: list[dict], uri: str) -> list[str]:
    """Makes each engine a version of a registered model, with its signed manifest beside it;
    returns "name/version" of each. A version that is there already is not made again. The slashes
    of a model's name become dots: MLflow allows none.

    Raises:
        ServiceError: MLflow refuses, or cannot be reached.
    """
    mlflow = package("mlflow", "service-mlflow")
    try:
        registry = mlflow.MlflowClient(tracking_uri=uri, registry_uri=uri)
        return [_registered(mlflow, registry, client, artifact) for artifact in artifacts]
    except mlflow.exceptions.MlflowException as error:
        raise ServiceError(0, "mlflow", f"MLflow at {uri}: {str(error)[:500]}") from None


def _registered(mlflow, registry, client, artifact: dict) -> str:
    name = artifact["model"].replace("/", ".")
    tags = {field: str(artifact[field])[:_LONGEST_TAG] for field in _TAGS} | {
        "tuned": str(artifact["tuned"]).lower(), "runs_on": artifact["runs_on"][:_LONGEST_TAG],
        "tuned_for": artifact["tuned_for"][:_LONGEST_TAG]}
    try:
        registry.create_registered_model(name)
    except mlflow.exceptions.MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    for version in registry.search_model_versions(f"name='{name}'"):
        if version.tags.get("manifest_digest") == artifact["manifest_digest"]:
            return f"{name}/{version.version}"
    experiment = registry.get_experiment_by_name("torch-vulkan")
    experiment_id = (experiment.experiment_id if experiment
                     else registry.create_experiment("torch-vulkan"))
    run = registry.create_run(experiment_id, tags=tags).info
    with tempfile.TemporaryDirectory() as folder:
        _downloaded(client, artifact, Path(folder))
        registry.log_artifacts(run.run_id, folder, "engine")
    registry.set_terminated(run.run_id)
    version = registry.create_model_version(name, f"{run.artifact_uri}/engine", run.run_id, tags)
    return f"{name}/{version.version}"
