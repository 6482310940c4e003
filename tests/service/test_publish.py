"""Signatures, engines that were built elsewhere, and what training leaves."""

import asyncio
import base64
import contextlib
import json
import shutil
import threading
import types
from pathlib import Path

import numpy
import pytest
import torch
from torch import nn

import torch_vulkan as tv
from torch_vulkan._service import observe
from torch_vulkan._service.client.fetch import to_folder
from torch_vulkan._service.files import onnx_files
from torch_vulkan._service.http.app import make_app
from torch_vulkan._service.jobs import artifacts
from torch_vulkan._service.rate import RateLimit
from torch_vulkan._service.running import task
from torch_vulkan._service.running.sandbox import PYTHON
from torch_vulkan._service.storage import keys, signing
from torch_vulkan._service.storage.database import Database
from torch_vulkan._service.storage.store import Store
from torch_vulkan._service.traces import NoTraces
from torch_vulkan.service import ServiceError

from workloads.service_process import SECONDS, layers, one_node

httpx = pytest.importorskip("httpx", reason="httpx is not installed: scripts/setup.sh --tests")
X = numpy.random.default_rng(4).standard_normal((3, 8)).astype(numpy.float32)
QUICK = {"optimization_level": 0}


@pytest.fixture
def there(service, tmp_path):
    return {"url": service.url, "api_key": service.key, "cache_dir": tmp_path / "cache"}


@pytest.fixture
def asking(service):
    return {"url": service.url, "api_key": service.key}


@pytest.fixture
def net(client, tmp_path):
    """An engine that the service built, in a folder, and what it computes."""
    model, expected = layers([8, 5], 7)
    job = client.submit(model, ["lavapipe"], name="signed/net", options=QUICK)
    assert client.wait(job["id"], SECONDS)["state"] == "COMPLETED"
    to_folder(client, client.artifacts("signed/net")[0], tmp_path / "net")
    return tmp_path / "net", expected


def right(engine, expected):
    numpy.testing.assert_allclose(engine.run({"x": X})["y"], expected(X), rtol=1e-5, atol=1e-6)


def test_a_manifest_says_what_the_engine_is_and_who_made_it(client, net):
    (path,) = net[0].glob("*.json")
    envelope = json.loads(path.read_text())
    assert envelope["payloadType"] == signing.TYPE
    key = client.signing_key()
    # DSSE's own words, with a library that knows nothing of ours.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    payload = base64.b64decode(envelope["payload"])
    Ed25519PublicKey.from_public_bytes(base64.b64decode(key.removeprefix("ed25519:"))).verify(
        base64.b64decode(envelope["signatures"][0]["sig"]),
        f"DSSEv1 {len(signing.TYPE)} {signing.TYPE} {len(payload)} ".encode() + payload)
    manifest = json.loads(payload)
    (row,) = [a for a in client.artifacts("signed/net")
              if a["engine_digest"] == manifest["engine_digest"]][:1]
    assert {name: row[name] for name in ("model", "model_digest", "runs_on", "tuned_for",
                                         "engine_key", "level")}.items() <= manifest.items()
    assert len(manifest["engine_key"]) == 64 and "sources" in manifest["builder"]
    assert manifest["published_by"] is None and manifest["options"]["optimization_level"] == 0


def test_a_folder_is_read_with_the_keys_that_are_given(client, net, tmp_path, monkeypatch):
    folder, expected = net
    key, other = client.signing_key(), signing.Signer(tmp_path / "other.key").public
    right(tv.AutoModel.from_pretrained(folder, trusted_keys=[other, key]), expected)
    for given in ([other], []):
        with pytest.raises(ValueError, match="not signed by a trusted key"):
            tv.AutoModel.from_pretrained(folder, trusted_keys=given)
    monkeypatch.setenv("TORCH_VULKAN_TRUSTED_KEYS", other)
    with pytest.raises(ValueError, match="not signed by a trusted key"):
        tv.AutoModel.from_pretrained(folder)
    monkeypatch.setenv("TORCH_VULKAN_TRUSTED_KEYS", f"{other}, {key}")
    right(tv.AutoModel.from_pretrained(folder), expected)
    for path in folder.glob("*.json"):
        path.unlink()
    with pytest.raises(ValueError, match="no signed manifest"):
        tv.AutoModel.from_pretrained(folder)
    for wrong in ("abc", "ed25519:abc", "ed25519:" + "A" * 44):
        with pytest.raises(ValueError, match="trusted_keys"):
            tv.AutoModel.from_pretrained(folder, trusted_keys=[wrong])


def test_what_others_signed_is_passed_over(client, net, tmp_path):
    """A cache after its service got another key: there are manifests of both."""
    folder, expected = net
    other = signing.Signer(tmp_path / "other.key")
    (path,) = folder.glob("*.json")
    newer = signing.opened(path.read_bytes(), None) | {"created": 2e9, "model_digest": "sha256:0",
                                                       "engine_digest": "sha256:" + "0" * 64}
    (folder / "other.json").write_bytes(other.envelope(newer))
    right(tv.AutoModel.from_pretrained(folder, trusted_keys=[client.signing_key()]), expected)
    path.unlink()
    with pytest.raises(ValueError, match="not signed by a trusted key"):
        tv.AutoModel.from_pretrained(folder, trusted_keys=[client.signing_key()])


def test_a_folder_of_several_models_is_not_guessed_at(client, net, asking, tmp_path):
    folder, expected = net
    (engine,), (first,) = folder.glob("*.vke"), client.artifacts("signed/net")[:1]
    same = tv.register(engine, "signed/other-name", **asking)
    to_folder(client, same, folder)
    assert len([*folder.glob("*.json")]) == 2 and len([*folder.glob("*.vke")]) == 1
    with pytest.raises(ValueError, match="several models .signed/net, signed/other-name"):
        tv.AutoModel.from_pretrained(folder)
    for one in (first, same):
        right(tv.AutoModel.from_pretrained(folder, revision=one["model_digest"]), expected)
    # One model file by two names is one model.
    again = client.publish(engine, "signed/again", model_digest=first["model_digest"])
    for artifact in (first, again):
        to_folder(client, artifact, tmp_path / "two")
    assert len([*(tmp_path / "two").glob("*.json")]) == 2
    right(tv.AutoModel.from_pretrained(tmp_path / "two"), expected)


@pytest.mark.parametrize("change", ["payload", "signature", "type", "none", "text"])
def test_a_changed_manifest_is_refused(client, net, change):
    folder, _ = net
    (path,) = folder.glob("*.json")
    envelope = json.loads(path.read_text())
    if change == "payload":
        manifest = json.loads(base64.b64decode(envelope["payload"])) | {"tuned": True}
        envelope["payload"] = base64.b64encode(json.dumps(manifest).encode()).decode()
    elif change == "signature":
        envelope["signatures"][0]["sig"] = base64.b64encode(bytes(64)).decode()
    elif change == "type":
        envelope["payloadType"] = "text/plain"
    elif change == "none":
        envelope["signatures"] = []
    path.write_text("[" * 100_000 if change == "text" else json.dumps(envelope))
    with pytest.raises(ValueError, match="signed"):
        tv.AutoModel.from_pretrained(folder, trusted_keys=[client.signing_key()])


def test_a_service_that_changes_its_key_is_not_believed(there, net, tmp_path):
    tv.AutoModel.from_pretrained("signed/net", **there)
    (pinned,) = (tmp_path / "cache").glob("*/.signing-key")
    pinned.write_text(signing.Signer(tmp_path / "other.key").public)
    with pytest.raises(ValueError, match=r"another key.*remove .*signing-key"):
        tv.AutoModel.from_pretrained("signed/net", **there)
    with pytest.raises(ValueError, match="not signed by a trusted key"):
        tv.AutoModel.from_pretrained("signed/net", **there, local_files_only=True)
    pinned.unlink()
    right(tv.AutoModel.from_pretrained("signed/net", **there), net[1])


def test_what_was_built_here_is_published_and_found_elsewhere(client, there, asking, tmp_path):
    model, expected = layers([8, 6])
    (tmp_path / "net.onnx").write_bytes(model)
    engine = tv.onnx.compile(str(tmp_path / "net.onnx"), optimization_level=0).engine
    artifact = tv.register(engine, "made/here", source=tmp_path / "net.onnx", **asking)
    assert artifact["device"] == "lavapipe" and artifact["published_by"]
    assert tv.register(engine, "made/here", source=tmp_path / "net.onnx", **asking) == artifact
    assert client.artifacts("made/here") == [artifact]
    engine.save(tmp_path / "net.vke")
    assert tv.register(tmp_path / "net.vke", "made/file", **asking)["model_digest"] == (
        artifact["engine_digest"])
    right(tv.AutoModel.from_pretrained("made/here", **there), expected)
    right(tv.AutoModel.from_pretrained("made/file", **there), expected)


def test_what_is_no_whole_engine_is_not_published(client, tmp_path, asking):
    model, _ = layers([8, 4])
    engine = tv.onnx.compile(model, optimization_level=0).engine
    engine.save(tmp_path / "net.vke", strip_weights=True)
    data = bytearray((tmp_path / "net.vke").read_bytes())
    with pytest.raises(ServiceError, match="without its weights"):
        client.publish(bytes(data), "bad/net")
    data[len(data) // 2] ^= 1
    for bad in (bytes(data), bytes(data[:100]), b"none", model):
        with pytest.raises(ServiceError, match="no engine that can be published") as refused:
            client.publish(bad, "bad/net")
        assert refused.value.status == 422
    with pytest.raises(ServiceError, match="upload the engine first"):
        client._json("POST", "/v1/artifacts", json={
            "model": "bad/net", "model_digest": "sha256:" + "0" * 64,
            "engine_digest": "sha256:" + "0" * 64})
    assert client.artifacts("bad/net") == []


def _publishing(tmp_path, database):
    """Parts for publishing alone; the key, and the digest of what may be published."""
    store = Store(tmp_path / "store")
    row, key = keys.made("key", ["admin"])
    keys.add(database, row)
    publisher = artifacts.Publisher(database, store, signing.Signer(tmp_path / "key"), None)
    parts = types.SimpleNamespace(
        database=database, store=store, publisher=publisher, rate=RateLimit(0, 1), version="1",
        metrics=observe.Metrics(database, store), audit=observe.Audit(tmp_path / "audit.jsonl"),
        traces=NoTraces(), most_upload_bytes=1 << 20)
    return parts, key, store.put(b"engine")


def test_engines_that_wait_to_be_read_hold_nobody_up(tmp_path, monkeypatch):
    monkeypatch.setattr(artifacts, "_LONGEST_WAIT_S", 1)
    may_end = threading.Event()

    def slow(self, _path):
        assert may_end.wait(SECONDS)
        return {"runs_on": "{}", "tuned_for": "{}", "version": "1"}

    monkeypatch.setattr(artifacts.Publisher, "_inspected", slow)

    async def ask(parts, key, digest):
        transport = httpx.ASGITransport(make_app(parts))
        async with httpx.AsyncClient(transport=transport, base_url="http://service",
                                     headers={"Authorization": f"Bearer {key}"}) as http:
            asked = [asyncio.create_task(http.post("/v1/artifacts", timeout=SECONDS, json={
                "model": f"net-{i}", "model_digest": digest, "engine_digest": digest}))
                for i in range(50)]
            try:
                async with asyncio.timeout(SECONDS):
                    assert (await http.get("/v1/keys")).status_code == 200
                    while sum(task.done() for task in asked) < 48:
                        await asyncio.sleep(0.05)
            finally:
                may_end.set()
            return [await task for task in asked]

    with contextlib.closing(Database(tmp_path / "service.db")) as database:
        answers = asyncio.run(ask(*_publishing(tmp_path, database)))
    refused = [answer for answer in answers if answer.status_code != 201]
    assert len(refused) == 48
    assert {(answer.status_code, int(answer.headers["retry-after"])) for answer in refused} == {
        (503, 10)}


@pytest.mark.parametrize("script, says", [
    ("print('[' + '0,' * (1 << 21))", "status"),
    ("print(chr(34) + 'x' * (1 << 20))", "status"),
    ("import json; print(json.dumps({**GOOD, 'version': chr(0xd800)}))", "status"),
    ("import json; print(json.dumps({**GOOD, 'runs_on': 'x' * 20001}))", "status"),
    ("import json; print(json.dumps({'error': 'x' * 9999}))", "x" * 500),
    ("import json; print(json.dumps(GOOD | {'more': 1}))", None)])
def test_what_is_said_of_an_engine_is_bounded(tmp_path, monkeypatch, script, says):
    """The process that says it has read what a publisher sent."""
    good = {"runs_on": "{}", "tuned_for": "{}", "version": "1"}
    monkeypatch.setattr(artifacts, "task_command", lambda *_: [
        PYTHON, "-c", f"GOOD = {good}\n{script}"])
    read = []
    monkeypatch.setattr(artifacts, "_read", lambda output, status, read_=artifacts._read: (
        read.append(len(output)), read_(output, status))[1])
    with contextlib.closing(Database(tmp_path / "service.db")) as database:
        publisher = _publishing(tmp_path, database)[0].publisher
        if says is None:
            assert publisher._inspected(tmp_path) == good
        else:
            with pytest.raises(ServiceError, match=says) as refused:
                publisher._inspected(tmp_path)
            assert len(str(refused.value)) < 1000
    assert read[0] <= 1 << 20


def test_without_an_engine_one_is_built_here_and_registered_if_asked(client, there, tmp_path,
                                                                     monkeypatch):
    model, expected = layers([8, 3])
    source = tmp_path / "net.onnx"
    source.write_bytes(model)
    with pytest.raises(ServiceError, match="no engine of a model"):
        tv.AutoModel.from_pretrained("missing/net", **there)
    given = {**there, "source": source, "options": QUICK}
    right(tv.AutoModel.from_pretrained("missing/net", **given), expected)
    assert client.artifacts("missing/net") == []
    monkeypatch.setattr(task, "build", None)  # the second time nothing is built
    right(tv.AutoModel.from_pretrained("missing/net", **given, register=True), expected)
    (artifact,) = client.artifacts("missing/net")
    assert artifact["published_by"] and artifact["level"] == 0 and len(artifact["engine_key"]) == 64
    shutil.rmtree(tmp_path / "cache")
    right(tv.AutoModel.from_pretrained("missing/net", **given), expected)
    # Without the service too, but not where it refuses.
    away = {**given, "url": "http://127.0.0.1:9", "cache_dir": tmp_path / "away"}
    monkeypatch.undo()
    right(tv.AutoModel.from_pretrained("missing/net", **away), expected)
    with pytest.raises(ServiceError, match="API key"):
        tv.AutoModel.from_pretrained("missing/net", **{**given, "api_key": "tv_x"})


def test_a_newer_source_is_not_served_by_an_older_engine(there, net, tmp_path):
    model, expected = layers([8, 5], 8)
    source = tmp_path / "newer.onnx"
    source.write_bytes(model)
    right(tv.AutoModel.from_pretrained("signed/net", **there, source=source, options=QUICK),
          expected)
    right(tv.AutoModel.from_pretrained("signed/net", **there), net[1])


def test_options_choose_among_the_engines_of_a_file(client, there, tmp_path):
    """A float16 engine, newer or tuned, is not taken for the model's own precision."""
    model, expected = layers([8, 5], 9)
    source = tmp_path / "net.onnx"
    source.write_bytes(model)
    half = {**QUICK, "enabled_precisions": ["float16"]}
    made = {}
    for name, options in (("own", QUICK), ("half", half)):
        job = client.submit(model, ["lavapipe"], name="two/net", options=options)
        made[name] = client.wait(job["id"], SECONDS)["tasks"][0]["artifact"]

    def chosen(**given):
        shutil.rmtree(tmp_path / "cache", ignore_errors=True)
        engine = tv.AutoModel.from_pretrained("two/net", **there, **given)
        (path,) = (tmp_path / "cache").glob("*/two%2Fnet/*.vke")
        return engine, "sha256:" + path.stem.removeprefix("sha256-")

    assert chosen()[1] == made["half"]
    engine, digest = chosen(options={"enabled_precisions": []})
    assert digest == made["own"]
    right(engine, expected)
    assert chosen(options=half)[1] == made["half"]
    wide = {"inputs": {"x": [(1, 1, 9), (8, 8, 8)]}}
    with pytest.raises(ServiceError, match="with the options"):
        chosen(options=wide)
    right(tv.AutoModel.from_pretrained("two/net", **there, options=wide, source=source), expected)


def test_an_engine_of_unknown_options_is_not_taken_for_one_of_them(client, there, asking,
                                                                   tmp_path):
    """Nobody said whether it has 16 bits."""
    model, expected = layers([8, 7])
    job = client.submit(model, ["lavapipe"], name="plain/net", options=QUICK)
    client.wait(job["id"], SECONDS)
    to_folder(client, client.artifacts("plain/net")[0], tmp_path / "net")
    (path,) = (tmp_path / "net").glob("*.vke")
    unknown = tv.register(path, "unsaid/net", **asking)
    assert unknown["options"] == {}
    right(tv.AutoModel.from_pretrained("unsaid/net", **there), expected)
    for options in ({"enabled_precisions": []}, {"optimization_level": 3}):
        with pytest.raises(ServiceError, match="with the options"):
            tv.AutoModel.from_pretrained("unsaid/net", **there, options=options)
    said = tv.register(path, "unsaid/net", options={"enabled_precisions": []}, **asking)
    assert said["options"] == {"enabled_precisions": []}, "what is said now is not lost"
    assert tv.register(path, "unsaid/net", **asking) == unknown
    assert tv.register(path, "unsaid/net", level=2, **asking)["level"] == 2
    assert len(client.artifacts("unsaid/net")) == 3
    right(tv.AutoModel.from_pretrained("unsaid/net", **there,
                                       options={"enabled_precisions": []}), expected)


def test_sources_that_cannot_be_engines_say_why(there, tmp_path):
    source = tmp_path / "net.onnx"
    source.write_bytes(one_node("Unique"))
    with pytest.raises(tv.UnsupportedError, match="the_node"):
        tv.AutoModel.from_pretrained("missing/none", **there, source=source)
    with pytest.raises(ValueError, match="register: want the source"):
        tv.AutoModel.from_pretrained("missing/none", **there, register=True)
    with pytest.raises(ValueError, match="options.*nothing"):
        tv.AutoModel.from_pretrained("missing/none", **there, source=source,
                                     options={"nothing": 1})


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.drop = nn.Linear(8, 4), nn.Dropout(0.5)

    def forward(self, x):
        return {"y": self.drop(torch.relu(self.layer(x)))}


def test_a_module_is_exported_and_compiled_for_every_device(there, asking):
    net = Net()
    net.layer.eval()
    job = tv.register(net, "trained/net", inputs={"x": torch.randn(2, 8)}, options=QUICK,
                      dynamic_shapes={"x": {0: torch.export.Dim("batch", min=1, max=64)}},
                      wait=True, **asking)
    assert job["state"] == "COMPLETED", job
    assert net.training and net.drop.training and not net.layer.training, "modes are as before"
    engine = tv.AutoModel.from_pretrained("trained/net", **there)
    (result,) = engine.run([X]).values()
    with torch.no_grad():
        wanted = net.eval()(torch.from_numpy(X))["y"].numpy()
    numpy.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)


def test_a_single_tensor_is_a_modules_only_input(tmp_path):
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    import onnx

    from torch_vulkan._service.client.registering import as_onnx

    (x,) = onnx.load(as_onnx(Net(), torch.randn(1, 8), None, tmp_path)).graph.input
    assert [dim.dim_value for dim in x.type.tensor_type.shape.dim] == [1, 8]


def test_a_module_beyond_protobufs_limit_is_sent_in_two_files(there, asking, client, monkeypatch):
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    from torch.onnx._internal.exporter import _onnx_program

    from torch_vulkan._service.client import registering

    monkeypatch.setattr(registering, "exported", registering.as_onnx)
    net = Net().eval()
    net.layer = nn.Linear(8, 40)  # small tensors stay in the ONNX file
    monkeypatch.setattr(_onnx_program, "_LARGE_MODEL_THRESHOLD", 16)  # else 1.5 GiB
    sent = []
    upload = tv.service.Client.upload
    monkeypatch.setattr(tv.service.Client, "upload", lambda self, model, *args, **given: (
        sent.extend(onnx_files.data_files(Path(model))), upload(self, model, *args, **given))[1])
    job = tv.register(net, "trained/large", inputs={"x": torch.from_numpy(X)}, options=QUICK,
                      wait=True, **asking)
    assert job["state"] == "COMPLETED" and len(sent) == 1, (job, sent)
    (result,) = tv.AutoModel.from_pretrained("trained/large", **there).run([X]).values()
    with torch.no_grad():
        wanted = net(torch.from_numpy(X))["y"].numpy()
    numpy.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)


def test_a_trainers_end_registers_the_model(client, asking):
    """Through transformers' own dispatch of callbacks."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    from transformers.trainer_callback import CallbackHandler, TrainerControl, TrainerState

    def ended(callback, is_zero=True):
        handler = CallbackHandler([callback], Net(), None, None, None)
        state = TrainerState(is_world_process_zero=is_zero)
        handler.on_train_end(None, state, TrainerControl())

    def made(**change):
        return tv.service.register_callback("trained/trainer", **{
            "inputs": [torch.randn(2, 8)], "devices": ["lavapipe"], "options": QUICK,
            **asking, **change})

    callback = made()
    assert isinstance(callback, transformers.TrainerCallback)
    ended(callback, is_zero=False)
    assert callback.job is None and client.artifacts("trained/trainer") == []
    ended(callback)
    assert client.wait(callback.job["id"], SECONDS)["state"] == "COMPLETED"
    with pytest.warns(UserWarning, match="not registered: no answer"):
        ended(made(url="http://127.0.0.1:9"))
