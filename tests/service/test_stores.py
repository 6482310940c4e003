"""The store on an fsspec URL: the same files as in a folder, copies here, and a store that is
away."""

import asyncio
import contextlib
import os
import subprocess
import time
import uuid
from concurrent.futures import Future

import numpy
import pytest

import torch_vulkan as tv
from torch_vulkan._service.errors import Away, Damaged
from torch_vulkan._service.http import app, faults
from torch_vulkan._service.http.app import _StoreFault
from torch_vulkan._service.storage import remote_store
from torch_vulkan._service.storage.store import Prefetch, Store
from torch_vulkan.service import ServiceError

from workloads.cut_line import CutLine
from workloads.postgresql import free_port
from workloads.service_process import (
    NO_ENVIRONMENT,
    OWN_PYTHON,
    SANDBOX,
    SECONDS,
    Service,
    environment,
    layers,
    until,
)

QUICK = {"optimization_level": 0}
# Nothing of S3 is asked beyond the loopback: a server of moto stands for it.
AMAZON = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
          "AWS_DEFAULT_REGION": "us-east-1"}


@pytest.fixture
def remote(tmp_path):
    made = remote_store.opened(f"memory://{uuid.uuid4().hex}/store", tmp_path / "copies", 1 << 20)
    yield made
    made._fs.rm(made._root, recursive=True)


def test_a_store_of_a_url_is_as_one_of_a_folder(tmp_path, remote):
    (tmp_path / "file").write_bytes(b"taken")
    for store in (Store(tmp_path / "folder"), remote,
                  remote_store.opened((tmp_path / "by url").as_uri(), tmp_path / "x", 0)):
        digest = store.put(b"data")
        assert store.has(digest) and store.fetch(digest).read_bytes() == b"data"
        taken, size = store.take(tmp_path / "file")
        assert size == 5 and store.fetch(taken).read_bytes() == b"taken"
        none = "sha256:" + "0" * 64
        assert not store.has(none)
        with pytest.raises(FileNotFoundError, match="0000"):
            store.fetch(none)
        files = {digest: (size, changed) for digest, size, changed in store.files()}
        assert files.keys() == {digest, taken} and files[digest][0] == 4
        assert abs(files[digest][1] - time.time()) < 60
        before = store.removals
        assert not store.remove(digest, time.time() - 60), "it is too new"
        assert store.remove(digest, time.time() + 60) and not store.has(digest)
        assert not store.remove(digest, time.time() + 60)
        assert store.removals == before + 1
        with pytest.raises(FileNotFoundError):
            store.fetch(digest)
        for bad in ("sha256:../../x", "sha256:" + "0" * 63):
            with pytest.raises(ValueError, match="hexadecimal"):
                store.has(bad)
        assert store.fault() == "" and [*store.unfinished.iterdir()] == []


def test_files_lie_where_a_folder_has_them(tmp_path, remote):
    digest = remote.put(b"data")
    path = Store(tmp_path).path(digest).relative_to(tmp_path)
    assert remote._fs.cat_file(f"{remote._root}/{path}") == b"data"


def test_copies_here_have_a_limit_and_are_compared(tmp_path, remote):
    old, new = remote.put(b"o" * (900 << 10)), None
    copy = remote._copies.path(old)
    os.utime(copy, (0, 0))
    new = remote.put(b"n" * (900 << 10))
    assert not copy.exists() and remote._copies.has(new)
    newer = remote.put(b"m" * (900 << 10))
    assert remote._copies.has(new) and remote._copies.has(newer), "both were used within the hour"
    assert remote.fetch(old).read_bytes() == b"o" * (900 << 10), "fetched again"
    copy.unlink()
    remote._fs.pipe_file(remote._place(old), b"changed")
    with pytest.raises(Damaged, match="damaged"):
        remote.fetch(old)
    with pytest.MonkeyPatch.context() as patched:  # it ended before all of it had come
        patched.setattr(type(remote._fs.store[remote._place(old)]), "size", 900 << 10)
        with pytest.raises(Away, match="broke off"):
            remote.fetch(old)
    assert [*remote.unfinished.iterdir()] == []


def test_a_store_that_is_another_one_is_not_believed(tmp_path, remote):
    """A bucket that was emptied, or a disk that is not mounted: nothing is given up for it."""
    digest = remote.put(b"data")
    kept = remote._fs.cat_file(f"{remote._root}/torch-vulkan-store")
    for path in (f"{remote._root}/torch-vulkan-store", remote._place(digest)):
        remote._fs.rm_file(path)
    remote._copies.remove(digest, float("inf"))
    for ask in (remote.has, remote.fetch):
        with pytest.raises(Away, match="another one"):
            ask(digest)
    with pytest.raises(Away, match="another one"):
        remote.put(b"more")
    assert "another one" in remote.fault()
    remote._fs.pipe_file(f"{remote._root}/torch-vulkan-store", kept)
    assert remote.fault() == "" and not remote.has(digest)


def test_whatever_a_driver_raises_the_store_is_away(remote, monkeypatch):
    digest = remote.put(b"data")
    remote._copies.remove(digest, float("inf"))

    def raise_it(*_given, **_named):
        raise RuntimeError("no route")

    with monkeypatch.context() as patched:
        for name in ("info", "open", "put_file", "find", "rm_file"):
            patched.setattr(remote._fs, name, raise_it)
        for ask in (lambda: remote.has(digest), lambda: remote.fetch(digest),
                    lambda: remote.put(b"more"), lambda: [*remote.files()],
                    lambda: remote.remove(digest, time.time())):
            with pytest.raises(Away, match="no route"):
                ask()
        assert "no route" in remote.fault()
    assert remote.fault() == "" and remote.fetch(digest).read_bytes() == b"data"


def test_nobody_is_told_where_the_store_is(remote, monkeypatch):
    remote.put(b"data")
    asked, said = [], _StoreFault(remote)
    assert said() == ""
    with monkeypatch.context() as patched:
        patched.setattr(remote, "fault", lambda: asked.append(1) or "s3://inner at 10.0.0.7")
        patched.setattr(app, "_PROBED_S", 3600)
        assert [said(), said()] == ["the store cannot be reached"] * 2 and len(asked) == 1
    said._until = 0
    assert said() == ""
    answer = asyncio.run(faults._os_error(None, Away("database", "user@10.0.0.7: refused")))
    assert answer.status_code == 503 and b"database cannot be reached" in answer.body
    assert b"10.0.0.7" not in answer.body


def test_who_asks_does_not_wait_for_what_is_fetched(remote):
    digest = remote.put(b"data")
    fetched = Prefetch(remote)
    assert until(lambda: fetched.get(digest), "it").read_bytes() == b"data"
    until(lambda: _raises(lambda: fetched.get("sha256:" + "0" * 64)), "a refusal")


def test_files_that_nobody_wants_any_more_are_in_nobodys_way(remote):
    fetched = Prefetch(remote)
    for i in range(6):  # cancelled while they were on their way
        fetched._futures[f"sha256:{i:064x}"] = came = Future()
        came.set_result(None)
    digest = remote.put(b"data")
    assert until(lambda: fetched.get(digest), "it").read_bytes() == b"data"
    fetched.keep({digest})
    assert not fetched._futures
    fetched._futures[digest] = came = Future()
    came.set_result(remote._copies.path(digest))
    remote._copies.remove(digest, float("inf"))
    assert fetched.get(digest) is None, "the copy has gone: it is fetched again"
    assert until(lambda: fetched.get(digest), "it").read_bytes() == b"data"


def _raises(ask) -> bool:
    try:
        ask()
    except FileNotFoundError:
        return True
    return False


def test_urls_that_nothing_knows(tmp_path):
    with pytest.raises(ValueError, match="Protocol not known"):
        remote_store.opened("nowhere://x", tmp_path / "copies", 0)


@pytest.fixture(scope="module")
def bucket():
    """A line to moto's server, which has a bucket."""
    if NO_ENVIRONMENT:
        pytest.skip(NO_ENVIRONMENT)
    port = free_port()
    server = subprocess.Popen([OWN_PYTHON, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=environment(**AMAZON))
    try:
        with CutLine(port) as line:
            variables = AMAZON | {"AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{line.port}"}
            make = ("import boto3, sys; boto3.client('s3').create_bucket(Bucket='engines')")
            until(lambda: subprocess.run([OWN_PYTHON, "-c", make], capture_output=True,
                                         env=environment(**variables)).returncode == 0, "a bucket")
            yield line, variables
    finally:
        server.kill()
        server.wait()


def test_models_and_engines_on_s3(bucket, tmp_path):
    line, variables = bucket
    service = Service(tmp_path / "data", *SANDBOX, "--store", "s3://engines/team",
                      python=OWN_PYTHON, variables=variables).start()
    model, expected = layers([8, 5])
    x = numpy.ones((2, 8), numpy.float32)

    def load(name):
        engine = tv.AutoModel.from_pretrained(name, url=service.url, api_key=service.key,
                                              cache_dir=tmp_path / f"cache-{time.monotonic()}")
        numpy.testing.assert_allclose(engine.run({"x": x})["y"], expected(x), rtol=1e-5, atol=1e-6)

    try:
        with service.client() as client:
            job = client.submit(model, ["lavapipe"], name="s3/net", options=QUICK)
            assert client.wait(job["id"], SECONDS)["state"] == "COMPLETED"
            load("s3/net")
            waits = client.upload(layers([8, 6])[0])
        service.stop()
        for copy in (service.folder / "copies" / "sha256").glob("*/*"):
            copy.unlink()
        assert not (service.folder / "store").exists()
        service.start()
        load("s3/net")
        with service.client() as client:
            line.cut()
            with pytest.raises(ServiceError) as away:
                client.upload(model)
            assert (away.value.status, away.value.code) == (503, "store_away")
            with pytest.raises(ServiceError) as away:
                client.health()
            assert away.value.status == 503
            line.mend()
            assert until(lambda: _well(client), "health")["status"] == "ok"
            # Asked for while it is there; built when it is there again.
            service.stop()
            (service.folder / "copies" / waits_place(waits)).unlink(missing_ok=True)
            service.arguments = (*service.arguments, "--tasks", "0")
            service.start()
        with service.client() as client:
            client.submit(layers([8, 6])[0], ["lavapipe"], name="s3/waits", job_id="waits",
                          options=QUICK)
        service.stop()
        (service.folder / "copies" / waits_place(waits)).unlink()
        service.arguments = service.arguments[:-2]
        line.cut()
        service.start()
        with service.client() as client:
            said = until(lambda: client.details("waits")["waits_for"], "a reason")
            assert "store" in said and client.details("waits")["state"] == "STARTING"
            line.mend()
            job = client.wait("waits", SECONDS)
            assert (job["state"], job["tasks"][0]["attempt"]) == (
                "COMPLETED", 1)
            removed = client.collect(job_days=0, upload_days=1)
            assert removed["jobs"] == 2 and removed["files"] == 0, "they are too new"
    finally:
        line.cut()
        line.mend()
        service.stop()
    assert "Traceback" not in service.log.read_text()


def waits_place(digest):
    name = digest.removeprefix("sha256:")
    return f"sha256/{name[:2]}/{name}"


def _well(client):
    with contextlib.suppress(ServiceError):
        return client.health()
    return None
