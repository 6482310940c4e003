"""tv.AutoModel: which engine is taken, from where, and what is checked."""

import subprocess
import sys

import numpy
import pytest

import torch_vulkan as tv
from torch_vulkan._service.storage import signing
from torch_vulkan.service import ServiceError

from workloads.service_process import SECONDS, layers

X = numpy.random.default_rng(3).standard_normal((2, 8)).astype(numpy.float32)


@pytest.fixture(scope="module")
def made(service):
    """The function that the engine of "auto/net" computes; an older version of it came before."""
    with service.client() as client:
        for seed in (1, 2):
            model, expected = layers([8, 5], seed)
            job = client.submit(model, ["lavapipe"], name="auto/net",
                                options={"optimization_level": 0})
            assert client.wait(job["id"], SECONDS)["state"] == "COMPLETED"
    return expected


@pytest.fixture
def load(service, made, tmp_path):
    def loaded(name="auto/net", **given):
        return tv.AutoModel.from_pretrained(name, **{
            "url": service.url, "api_key": service.key, "cache_dir": tmp_path / "cache", **given})

    return loaded


def test_the_newest_is_taken_or_the_revision_asked_for(client, load, made):
    numpy.testing.assert_allclose(load().run({"x": X})["y"], made(X), rtol=1e-5, atol=1e-6)
    older = client.artifacts("auto/net")[-1]["model_digest"]
    numpy.testing.assert_allclose(load(revision=older).run({"x": X})["y"],
                                  layers([8, 5], 1)[1](X), rtol=1e-5, atol=1e-6)
    with pytest.raises(ServiceError, match="revision"):
        load(revision="sha256:" + "0" * 64)


def test_a_tuned_engine_comes_before_one_that_is_not(client, load, tmp_path):
    model, _ = layers([8, 4])
    options = [{"optimization_level": level} for level in (1, 0)]  # the tuned one is older
    for given in options:
        job = client.submit(model, ["lavapipe"], name="auto/tuned", options=given)
        client.wait(job["id"], SECONDS)
    load("auto/tuned")
    plain, tuned, _first = client.artifacts("auto/tuned")
    assert tuned["tuned"] and not plain["tuned"]
    (path,) = tmp_path.glob("cache/*/auto%2Ftuned/*.json")  # the engines may be the same
    manifest = signing.opened(path.read_bytes(), [client.signing_key()])
    said = {name: tuned[name] for name in tuned if name != "manifest_digest"}
    assert manifest["tuned"] and {name: manifest[name] for name in said} == said


def test_without_the_service_the_cache_serves(load, made, tmp_path):
    load()
    away = {"url": "http://127.0.0.1:9"}  # the cache is kept for each service
    with pytest.raises(ServiceError, match="no answer") as refused:
        load(**away)
    assert refused.value.code == "unreachable"
    (cache,) = (tmp_path / "cache").iterdir()
    cache.rename(cache.with_name("http%3A%2F%2F127.0.0.1%3A9"))
    for given in ({}, {"local_files_only": True}):
        numpy.testing.assert_allclose(load(**away, **given).run({"x": X})["y"], made(X),
                                      rtol=1e-5, atol=1e-6)
    with pytest.raises(ServiceError, match="cache"):
        load("auto/other", local_files_only=True)


def test_a_damaged_engine_is_never_loaded(load, tmp_path):
    load()
    (path,) = (tmp_path / "cache").glob("*/*/*.vke")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="damaged"):
        load(local_files_only=True)
    load()  # fetched anew
    assert path.read_bytes() != data
    path.unlink()
    with pytest.raises(ValueError, match="missing"):
        load(local_files_only=True)


def test_a_manifest_cannot_lead_elsewhere(load, tmp_path):
    load()
    (path,) = (tmp_path / "cache").glob("*/*/*.json")
    manifest = signing.opened(path.read_bytes(), None)
    signer = signing.Signer(tmp_path / "key")
    for change in ({"engine_digest": "sha256:../../x"}, {"engine_digest": None}):
        path.write_bytes(signer.envelope(manifest | change | {"file": "../../x"}))
        with pytest.raises(ValueError, match="engine_digest"):
            load(local_files_only=True, trusted_keys=[signer.public])


def test_folders_of_engines(tmp_path):
    with pytest.raises(FileNotFoundError, match="no .vke"):
        tv.AutoModel.from_pretrained(tmp_path)
    model, expected = layers([8, 3])
    tv.onnx.compile(model).engine.save(tmp_path / "net.vke")
    engine = tv.AutoModel.from_pretrained(str(tmp_path))
    numpy.testing.assert_allclose(engine.run({"x": X})["y"], expected(X), rtol=1e-5, atol=1e-6)


def test_unknown_models_and_refused_keys(load):
    with pytest.raises(ServiceError, match="no engine of a model") as refused:
        load("auto/none")
    assert refused.value.status == 404
    with pytest.raises(ServiceError, match="API key"):
        load(api_key="tv_000000000000_" + "a" * 43)


def test_importing_the_package_leaves_the_service_alone():
    done = subprocess.run([sys.executable, "-c", """
import sys
import torch_vulkan as tv
there = [m for m in sys.modules if m.startswith((
    "torch_vulkan.service", "torch_vulkan._service", "fastapi", "sqlmodel"))]
assert not there, there
for missing in ("httpx", "fastapi"):
    sys.modules[missing] = None
assert tv.AutoModel and tv.service.AutoModel is tv.AutoModel
try:
    tv.service.Client()
except ImportError as error:
    print(error)
"""], capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    assert "install torch-vulkan[service]" in done.stdout


def test_the_users_cache_stays_fit_for_engines(load, tmp_path, monkeypatch):
    """It is refused where others could look into it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    load(cache_dir=None)
    assert tv.cache.directory().stat().st_mode & 0o077 == 0
    assert [*tv.cache.directory().glob("models/*/auto%2Fnet/*")]
