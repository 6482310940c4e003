"""Who may do what, and what a client can send."""

import json
import random
import socket
import sqlite3
import string

import pytest

from torch_vulkan._service.files import bundle
from torch_vulkan._service.storage.scopes import SCOPES
from torch_vulkan.service import ServiceError

from marks import slow_but
from seeds import SEED
from workloads.service_process import SECONDS, layers, until

httpx = pytest.importorskip("httpx", reason="httpx is not installed: scripts/setup.sh --tests")
DIGEST = "sha256:" + "0" * 64


@pytest.fixture(scope="module")
def http(service):
    with httpx.Client(base_url=service.url, timeout=SECONDS, trust_env=False) as made:
        yield made


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


REQUESTS = [
    ("read", "GET", "/v1/jobs", {}),
    ("read", "GET", "/v1/jobs/none", {}),
    ("read", "GET", "/v1/jobs/none/logs", {}),
    ("read", "GET", "/v1/artifacts", {}),
    ("read", "GET", f"/v1/artifacts/{DIGEST}", {}),
    ("read", "GET", "/v1/devices", {}),
    ("read", "GET", "/v1/signing-key", {}),
    ("read", "GET", "/v1/timings/none", {}),
    ("publish", "POST", "/v1/timings/none", {"content": b"{}"}),
    ("read", "GET", "/v1/webhooks", {}),
    ("read", "GET", "/metrics", {}),
    ("submit", "GET", "/v1/webhooks/secret", {}),
    ("submit", "POST", "/v1/webhooks/none/retry", {}),
    ("publish", "POST", "/v1/engines", {"content": b"engine"}),
    ("publish", "POST", "/v1/artifacts", {"json": {"model": "m", "model_digest": DIGEST,
                                                   "engine_digest": DIGEST}}),
    ("admin", "POST", "/v1/gc", {"json": {"dry_run": True}}),
    ("submit", "POST", "/v1/models", {"content": b"model"}),
    ("submit", "POST", "/v1/jobs", {"json": {"model": "m", "model_digest": DIGEST,
                                             "devices": ["lavapipe"]}}),
    ("submit", "DELETE", "/v1/jobs/none", {}),
    ("admin", "PUT", "/v1/devices/new", {"json": {"profile": {}}}),
    ("admin", "GET", "/v1/keys", {}),
    ("admin", "POST", "/v1/keys", {"json": {"name": "k", "scopes": ["read"]}}),
    ("admin", "DELETE", "/v1/keys/none", {}),
]


def test_every_route_is_in_the_list(http):
    paths = http.get("/openapi.json").json()["paths"]
    assert sum(map(len, paths.values())) == len(REQUESTS) + 1, "and /v1/health needs no key"
    assert http.get("/v1/health").json()["status"] == "ok"


@pytest.mark.parametrize("scope, method, path, given", REQUESTS,
                         ids=[f"{r[1]} {r[2]}".replace(DIGEST, "sha") for r in REQUESTS])
def test_a_key_may_do_what_its_scopes_say(client, http, scope, method, path, given):
    assert http.request(method, path, **given).status_code == 401
    for has in SCOPES:
        made = client.create_key(has, [has])
        status = http.request(method, path, headers=bearer(made["key"]), **given).status_code
        assert (status == 403) == (has not in (scope, "admin")), (has, status)
        assert status != 401
        client.revoke_key(made["id"])
        assert http.request(method, path, headers=bearer(made["key"]), **given).status_code == 401


@pytest.mark.parametrize("key", ["x", "tv_", "tv_000000000000_" + "a" * 43, "Bearer x",
                                 "tv_000000000000_" + "ä" * 43])
def test_what_is_no_key_is_refused(http, key):
    answer = http.get("/v1/jobs", headers=[(b"authorization", b"Bearer " + key.encode("latin-1"))])
    assert answer.status_code == 401 and answer.json()["error"]["code"] == "unauthorized"


def test_a_wrong_secret_with_a_right_id_is_refused(service, http):
    wrong = service.key[:-1] + ("a" if service.key[-1] != "a" else "b")
    assert http.get("/v1/jobs", headers=bearer(wrong)).status_code == 401


def test_secrets_are_neither_in_the_database_nor_in_logs(service, client):
    made = client.create_key("secret", ["read"])
    secrets = [made["key"].split("_", 2)[2], service.key.split("_", 2)[2]]
    with sqlite3.connect(service.folder / "service.db") as database:
        dump = "\n".join(database.iterdump())
    assert made["id"] in dump
    for secret in secrets:
        assert secret not in dump and secret not in service.log.read_text()
    assert "key" not in client.keys()[0] and "secret_sha256" not in client.keys()[0]
    assert (service.folder / "admin.key").stat().st_mode & 0o077 == 0
    assert service.folder.stat().st_mode & 0o077 == 0


JOB = {"model": "m", "model_digest": DIGEST, "devices": ["lavapipe"]}


@pytest.mark.parametrize("change, says", [
    ({"model": "../up"}, "model"), ({"model": "a//b"}, "model"), ({"model": "x" * 65}, "model"),
    ({"model_digest": "sha256:zz"}, "model_digest"), ({"devices": []}, "devices"),
    ({"devices": ["lavapipe", "lavapipe"]}, "twice"), ({"job_id": "a b"}, "job_id"),
    ({"unknown": 1}, "unknown"), ({"options": {"optimization_level": 9}}, "optimization_level"),
    ({"options": {"enabled_precisions": ["int8"]}}, "enabled_precisions"),
    ({"options": {"inputs": {"x": [[3, 2, 1]]}}}, "in order"),
    ({"devices": ["other"]}, "other"), ({}, "upload the model first"),
], ids=str)
def test_a_bad_job_is_refused_with_what_is_wrong(service, http, change, says):
    answer = http.post("/v1/jobs", json=JOB | change, headers=bearer(service.key))
    assert answer.status_code == 422 and says in answer.text


def test_uploads_have_a_limit(service, client, http):
    def pieces():
        for _ in range(9):
            yield bytes(1 << 20)

    headers = bearer(service.key)
    for content in (bytes(9 << 20), pieces()):  # with its length said before, and without
        answer = http.post("/v1/models", content=content, headers=headers)
        assert answer.status_code == 413 and answer.json()["error"]["code"] == "too_large"
    answer = http.post("/v1/jobs", content=bytes(2 << 20), headers=headers)
    assert answer.status_code == 413
    with pytest.raises(ServiceError, match="empty"):
        client.upload(b"")
    assert [*(service.folder / "store" / "unfinished").iterdir()] == []
    assert client.upload(layers([4, 3])[0]).startswith("sha256:")


def test_a_client_that_leaves_during_an_upload_leaves_nothing(service, client):
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as left:
        left.sendall(b"POST /v1/models HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n"
                     b"Authorization: Bearer " + service.key.encode() + b"\r\n\r\n" + bytes(5000))
        until(lambda: [*(service.folder / "store" / "unfinished").iterdir()], "the upload")
    until(lambda: not [*(service.folder / "store" / "unfinished").iterdir()], "its end")
    assert client.health()["status"] == "ok"
    assert "Traceback" not in service.log.read_text()


def test_models_are_not_given_back(service, client, http):
    digest = client.upload(b"somebody's model")
    answer = http.get(f"/v1/artifacts/{digest}", headers=bearer(service.key))
    assert answer.status_code == 404


def _noise(draw: random.Random, depth=0):
    """A JSON value, with what breaks parsers among it."""
    kinds = [None, True, -1, 2 ** 70, 1e308, "", "\ud800", "\x00", "ä" * 50, "../..", DIGEST,
             "lavapipe", draw.choice(string.printable) * draw.randrange(300)]
    if depth < 3 and draw.random() < 0.4:
        return [_noise(draw, depth + 1) for _ in range(draw.randrange(4))]
    if depth < 3 and draw.random() < 0.4:
        names = ["model", "devices", "options", "inputs", "profile", "\udfff", "name", "notify",
                 "engine_digest", "level", "job_days", "engines", "scopes"]
        return {draw.choice(names): _noise(draw, depth + 1) for _ in range(draw.randrange(4))}
    return draw.choice(kinds)


def _bundle(draw: random.Random) -> bytes:
    """A bundle, most often one with something wrong."""
    names = ["net.onnx", "net.data", "a/b", "a", "..", "/a", "\ud800", "\x00", "x" * 300, ""]
    files = [[draw.choice(names), draw.choice([0, 1, 5, 5, -1, 2 ** 70])]
             for _ in range(draw.randrange(4))]
    head = json.dumps({"files": files} if draw.random() < 0.8 else _noise(draw)).encode()
    size = len(head) if draw.random() < 0.8 else draw.choice([0, 3, 2 ** 20 + 1, 2 ** 64 - 1])
    held = draw.randbytes(sum(n for _, n in files if 0 < n < 10))
    whole = bundle.MAGIC + size.to_bytes(8, "little") + head + held
    return whole if draw.random() < 0.7 else whole[:draw.randrange(len(whole))]


@pytest.mark.parametrize("count", slow_but([150], [150, 10_000]))
def test_random_requests_get_answers_and_no_tracebacks(service, http, count):
    draw = random.Random(SEED)
    headers = bearer(service.key)
    for _ in range(count):
        _scope, method, path, given = draw.choice(REQUESTS[:-1])
        path = path.replace("none", draw.choice(["none", "%00", "%ff", "a" * 200, "..%2f", "ä"]))
        if draw.random() < 0.3:
            path += f"?limit={draw.choice(['0', '-1', 'x', '9' * 30, '%00'])}&state=%ED%A0%80"
        good = given.get("json", JOB)
        body = json.dumps(good | {draw.choice([*good, "options"]): _noise(draw)}
                          if draw.random() < 0.6 else _noise(draw)).encode()
        if draw.random() < 0.2:
            body = body[:draw.randrange(len(body) + 1)] + draw.randbytes(5)
        if path == "/v1/models" and draw.random() < 0.8:
            body = _bundle(draw)
        if path.startswith("/v1/devices/") and b"api_version" not in body:
            continue  # each asks a process of its own: one is in test_service.py
        answer = http.request(method, path, content=body,
                              headers=headers | {"Content-Type": "application/json"})
        assert answer.status_code < 500, (method, path, body, answer.text)
        assert "Traceback" not in answer.text and 'File "' not in answer.text
        if answer.status_code >= 400:
            assert {"code", "message", "details"} == answer.json()["error"].keys()
    assert "Traceback" not in service.log.read_text()
