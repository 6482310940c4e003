"""Engines in other registries: the OCI layout by its digests, and MLflow."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import torch_vulkan as tv
from torch_vulkan._service.client import exporting
from torch_vulkan._service.storage import signing

from workloads.service_process import (
    NO_ENVIRONMENT,
    OWN_PYTHON,
    SCRIPT,
    SECONDS,
    environment,
    layers,
)

MLFLOW = {"MLFLOW_ALLOW_FILE_STORE": "true"}  # a registry in a folder needs no server


@pytest.fixture(scope="module")
def engines(service):
    """Two artefacts of a model."""
    with service.client() as client:
        for i in range(2):
            job = client.submit(layers([8, 5 + i])[0], ["lavapipe"], name="export/net",
                                options={"optimization_level": 0})
            assert client.wait(job["id"], SECONDS)["state"] == "COMPLETED"
        return client.artifacts("export/net")


def run(service, *arguments, python=sys.executable):
    return subprocess.run([python, SCRIPT, "export", "--model", "export/net", *arguments],
                          capture_output=True, text=True, timeout=SECONDS,
                          env=environment(TORCH_VULKAN_SERVICE=service.url,
                                          TORCH_VULKAN_API_KEY=service.key, **MLFLOW))


def blob(folder, descriptor):
    """A blob whose digest and size are as its descriptor says."""
    data = (folder / "blobs" / descriptor["digest"].replace(":", "/")).read_bytes()
    assert f"sha256:{hashlib.sha256(data).hexdigest()}" == descriptor["digest"]
    assert len(data) == descriptor["size"]
    return data


def test_an_oci_layout_holds_what_its_digests_say(service, client, engines, tmp_path):
    done = run(service, "--oci", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [exporting.tag_of(engine) for engine in engines]
    assert json.loads((tmp_path / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
    index = json.loads((tmp_path / "index.json").read_text())
    assert index["schemaVersion"] == 2 and len(index["manifests"]) == 2
    seen = set()
    for engine, descriptor in zip(engines, index["manifests"], strict=True):
        tag = descriptor["annotations"]["org.opencontainers.image.ref.name"]
        assert tag == exporting.tag_of(engine)
        manifest = json.loads(blob(tmp_path, descriptor))
        assert manifest["artifactType"] == "application/vnd.torch-vulkan.engine.v1"
        assert manifest["annotations"]["org.torch-vulkan.runs-on"] == engine["runs_on"]
        assert blob(tmp_path, manifest["config"]) == b"{}"
        vke, envelope = manifest["layers"]
        assert vke["digest"] == engine["engine_digest"]
        assert tv.Engine(blob(tmp_path, vke))
        said = signing.opened(blob(tmp_path, envelope), [client.signing_key()])
        assert said["engine_digest"] == engine["engine_digest"]
        seen |= {one["digest"] for one in (descriptor, manifest["config"], vke, envelope)}
    there = {f"sha256:{path.name}" for path in (tmp_path / "blobs" / "sha256").iterdir()}
    assert there == seen, "nothing else is there"
    before = (tmp_path / "index.json").read_text()
    assert exporting.to_oci(client, engines, tmp_path) and (
        tmp_path / "index.json").read_text() == before, "the same again changes nothing"
    (tmp_path / "index.json").write_text("{}")
    with pytest.raises(ValueError, match="no index"):
        exporting.to_oci(client, engines, tmp_path)


def test_a_tag_is_as_registries_take_them(engines):
    tag = exporting.tag_of({**engines[0], "model": "a/b:c d" * 40})
    assert len(tag) <= 128 and set(tag) <= set("abcdefghijklmnopqrstuvwxyz0123456789-._")


def test_what_is_not_there_is_not_exported(service, engines, tmp_path):
    done = subprocess.run([sys.executable, SCRIPT, "export", "--model", "export/none", "--oci",
                           str(tmp_path)], capture_output=True, text=True, timeout=SECONDS,
                          env=environment(TORCH_VULKAN_SERVICE=service.url,
                                          TORCH_VULKAN_API_KEY=service.key))
    assert done.returncode == 1 and "no engine of a model 'export/none'" in done.stderr


def test_mlflow_has_each_engine_once(service, engines, tmp_path):
    if NO_ENVIRONMENT:
        pytest.skip(NO_ENVIRONMENT)
    uri = (tmp_path / "mlflow").as_uri()
    done = run(service, "--mlflow", "nowhere://x", python=OWN_PYTHON)
    assert done.returncode == 1 and "MLflow at nowhere://x" in done.stderr
    for _ in range(2):
        done = run(service, "--mlflow", uri, "--json", python=OWN_PYTHON)
        assert done.returncode == 0, done.stderr
        assert sorted(json.loads(done.stdout)) == ["export.net/1", "export.net/2"]
    ask = ("import json, mlflow, sys; c = mlflow.MlflowClient(sys.argv[1], sys.argv[1]); "
           "print(json.dumps([[v.tags['engine_digest'], v.tags['device'], "
           "mlflow.artifacts.download_artifacts(v.source)] "
           "for v in c.search_model_versions(\"name='export.net'\")]))")
    done = subprocess.run([OWN_PYTHON, "-c", ask, uri], capture_output=True, text=True,
                          timeout=SECONDS, env=environment(**MLFLOW))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {digest for digest, _, _ in found} == {e["engine_digest"] for e in engines}
    for digest, device, folder in found:
        assert device == "lavapipe"
        assert digest.replace(":", "-") + ".vke" in {
            path.name for path in Path(folder).iterdir()}
