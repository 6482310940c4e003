"""Webhooks: each end of a job arrives, signed, and goes nowhere that it should not."""

import asyncio
import datetime
import ipaddress
import json
import socket
import subprocess
import sys
import time

import pytest

from torch_vulkan.service import ServiceError

from workloads.service_process import (
    SANDBOX,
    SCRIPT,
    SECONDS,
    Service,
    environment,
    layers,
    until,
)
from workloads.webhook_receiver import Receiver

standardwebhooks = pytest.importorskip(
    "standardwebhooks", reason="standardwebhooks is not installed: scripts/setup.sh --tests")

MODEL = layers([8, 5])[0]
QUICK = ("--webhook-private", "--webhook-delay", "0.01")


@pytest.fixture(scope="module")
def sending(tmp_path_factory):
    made = Service(tmp_path_factory.mktemp("sending") / "data", *SANDBOX, *QUICK,
                   "--webhook-attempts", "7").start()
    yield made
    made.stop()


def submit(client, url, job_id, **given):
    return client.submit(given.pop("model", MODEL), ["lavapipe"], name="hook/net", job_id=job_id,
                         options={"optimization_level": 0}, notify=url, **given)


def event_of(client, job_id, state):
    def found():
        event = client.details(job_id)["webhook"]
        return event if event and event["state"] == state else None

    return until(found, f"a webhook that is {state}")


def verified(client, receiver):
    """What the independent library takes for genuine, once for each id."""
    webhook = standardwebhooks.Webhook(client.webhook_secret())
    return {headers["webhook-id"]: webhook.verify(body, headers)
            for _, headers, body in receiver.got}


def test_a_receiver_that_fails_five_times_gets_one_event(sending):
    with Receiver(500, 500, 500, 500, 500, 200) as receiver, sending.client() as client:
        submit(client, receiver.url, "five")
        event = event_of(client, "five", "DELIVERED")
        (message,) = verified(client, receiver).items()
        assert message[0] == event["id"] and len(receiver.got) == event["attempts"] == 6
        job = client.details("five")
        assert message[1]["type"] == "job.completed" and message[1]["data"] == {
            "job": "five", "state": "COMPLETED", "model": "hook/net",
            "model_digest": job["model_digest"],
            "tasks": [{"device": "lavapipe", "level": 0, "state": "COMPLETED",
                       "artifact": job["tasks"][0]["artifact"]}]}
        assert {path for path, _, _ in receiver.got} == {"/hook?team=a"}
        assert "team=a" not in json.dumps([job, client.webhooks(), client.list()])
    assert "team=a" not in sending.log.read_text()


def test_every_kind_of_end_is_told(sending):
    with Receiver() as receiver, sending.client() as client:
        submit(client, receiver.url, "bad", model=b"no model")
        submit(client, receiver.url, "stopped")
        client.cancel("stopped")
        submit(client, receiver.url, "good")
        jobs = {name: client.wait(name, SECONDS)["state"] for name in ("bad", "stopped", "good")}
        until(lambda: len(receiver.ids()) == 3, "three events")
        told = {m["data"]["job"]: m["type"] for m in verified(client, receiver).values()}
        assert told == {name: f"job.{state.lower()}" for name, state in jobs.items()}
        assert told["bad"] == "job.failed"


def test_another_keys_secret_signs_nothing_of_this_one(sending):
    with Receiver() as receiver, sending.client() as client:
        other = client.create_key("other", ["submit"])["key"]
        with sending.client(other) as theirs:
            submit(theirs, receiver.url, "theirs")
            secret = theirs.webhook_secret()
        until(receiver.ids, "the event")
        _, headers, body = receiver.got[0]
        standardwebhooks.Webhook(secret).verify(body, headers)
        with pytest.raises(standardwebhooks.WebhookVerificationError):
            standardwebhooks.Webhook(client.webhook_secret()).verify(body, headers)


def test_an_event_outlives_kill_9(tmp_path):
    service = Service(tmp_path / "data", *SANDBOX, *QUICK).start()
    try:
        with Receiver(500) as receiver:
            with service.client() as client:
                submit(client, receiver.url, "kept")
                until(lambda: receiver.got, "the first attempt")
            service.kill()
            receiver.statuses[:] = [200]
            service.start()
            with service.client() as client:
                event_of(client, "kept", "DELIVERED")
                assert len(verified(client, receiver)) == 1
    finally:
        service.stop()


def test_what_is_given_up_is_shown_and_sent_when_asked(tmp_path):
    service = Service(tmp_path / "data", *SANDBOX, *QUICK, "--webhook-attempts", "2").start()
    try:
        with Receiver(500) as receiver, service.client() as client:
            submit(client, receiver.url, "dead")
            event = event_of(client, "dead", "DEAD")
            assert event["attempts"] == 2 and "status 500" in event["reason"]
            for words, says in ((("webhooks", "--state", "dead"), event["id"]),
                                (("details", "dead"), "DEAD after 2 attempts")):
                done = subprocess.run([sys.executable, SCRIPT, *words], capture_output=True,
                                      text=True, timeout=SECONDS, env=environment(
                                          TORCH_VULKAN_SERVICE=service.url,
                                          TORCH_VULKAN_API_KEY=service.key))
                assert done.returncode == 0 and says in done.stdout, done.stderr
            receiver.statuses[:] = [204]
            client.retry_webhook(event["id"])
            event_of(client, "dead", "DELIVERED")
            assert len(verified(client, receiver)) == 1
            assert client.webhooks("DEAD") == []
    finally:
        service.stop()


@pytest.mark.parametrize("status", [410, 302])
def test_gone_is_final_and_redirects_are_not_followed(sending, status):
    with Receiver(status, 200) as receiver, sending.client() as client:
        submit(client, receiver.url, f"status-{status}")
        event = event_of(client, f"status-{status}", "DEAD" if status == 410 else "DELIVERED")
        assert event["attempts"] == (1 if status == 410 else 2)
        assert {path for path, _, _ in receiver.got} == {"/hook?team=a"}


def test_a_name_is_kept_for_the_receiver(sending):
    with Receiver() as receiver, sending.client() as client:
        url = receiver.url.replace("127.0.0.1", "localhost")
        submit(client, url, "name")
        event_of(client, "name", "DELIVERED")
        assert receiver.got[0][1]["host"] == url.split("/")[2]


@pytest.mark.parametrize("url, says", [
    ("http://example.com/x", "https"), ("https://127.0.0.1/x", "private"),
    ("https://[::1]/x", "private"), ("https://169.254.169.254/latest", "private"),
    ("https://[::ffff:10.0.0.1]/x", "private"), ("https://user:word@example.com/x", "user"),
    ("ftp://example.com/x", "https://HOST"), ("https:///x", "https://HOST"),
    ("https://[::1/x", "https://HOST"), ("https://example.com:99999/x", "https://HOST"),
    ("https://example.com/a b", "notify"), ("https://example.com/#x", "fragment"),
])
def test_urls_that_a_service_refuses(client, url, says):
    with pytest.raises(ServiceError, match=says) as refused:
        submit(client, url, "refused")
    assert refused.value.status == 422
    assert [job for job in client.list() if job["id"] == "refused"] == []


def test_names_of_private_addresses_are_refused_when_they_are_resolved(service, client):
    with Receiver() as receiver:
        port = receiver.url.split(":")[2].split("/")[0]
        submit(client, f"https://localhost:{port}/hook", "inside")
        until(lambda: (client.details("inside")["webhook"] or {}).get("attempts"), "an attempt")
        event = client.details("inside")["webhook"]
        assert "private address" in event["reason"] and event["state"] == "PENDING"
        assert receiver.got == []


@pytest.mark.parametrize("address, public", [
    ("8.8.8.8", True), ("2001:4860:4860::8888", True), ("127.0.0.1", False), ("10.1.2.3", False),
    ("172.16.0.1", False), ("192.168.1.1", False), ("100.64.0.1", False), ("169.254.1.1", False),
    ("0.0.0.0", False), ("255.255.255.255", False), ("224.0.0.1", False), ("::", False),
    ("::1", False), ("fe80::1", False), ("fd00::1", False), ("fec0::1", False), ("ff02::1", False),
    ("::ffff:8.8.8.8", False), ("64:ff9b::7f00:1", False), ("2002:7f00:1::", False),
    ("2001:0:1::1", False),
])
def test_addresses(address, public):
    from torch_vulkan._service.jobs import webhooks

    assert webhooks.is_public(ipaddress.ip_address(address)) == public


def rows(database, urls):
    """Pending events of jobs that have ended."""
    from torch_vulkan._service.storage.tables import Job, State, WebhookEvent

    for i, url in enumerate(urls):
        with database.writing() as session:
            job = Job(id=f"j{i}", request_sha256="", model="m", model_digest="", options={}, key="",
                      state=State.STOPPED, ended=time.time())
            session.add(job)
            session.flush()
            session.add(WebhookEvent(id=f"msg_{i}", job=job.number, url=url, key="k", body="{}",
                                     host=url.split("/")[2].split(":")[0]))


def test_a_receiver_that_hangs_keeps_no_other_waiting(tmp_path):
    from torch_vulkan._service.jobs.sender import Policy, Sender
    from torch_vulkan._service.storage.database import Database

    database = Database(tmp_path / "service.db")
    with socket.create_server(("127.0.0.1", 0)) as hanging, Receiver() as receiver:
        slow = f"http://localhost:{hanging.getsockname()[1]}/"
        rows(database, [slow] * 10 + [receiver.url])
        sender = Sender(database, b"m" * 32, Policy(seconds=SECONDS, allow_private=True))
        sender.start()
        try:
            until(receiver.ids, "the event behind the ten")
        finally:
            sender.stop()
    assert not sender.is_alive()


def certificate(path, name):
    """Of this name alone, signed by itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    called = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder().subject_name(called).issuer_name(called).public_key(
        key.public_key()).serial_number(1).not_valid_before(
        now - datetime.timedelta(days=1)).not_valid_after(
        now + datetime.timedelta(days=1)).add_extension(
        x509.SubjectAlternativeName([x509.DNSName(name)]), False).add_extension(
        x509.BasicConstraints(True, None), True).sign(key, hashes.SHA256())
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption()))
    return path


@pytest.mark.parametrize("name", ["receiver.example", "other.example"])
def test_the_certificate_is_that_of_the_name_and_the_address_that_which_was_checked(
        tmp_path, monkeypatch, name):
    """The name is resolved once, here: a second time it would be unknown."""
    from torch_vulkan._service.jobs import webhooks
    from torch_vulkan._service.jobs.sender import Policy, Sender
    from torch_vulkan._service.storage.database import Database

    asked = []

    async def resolved(_loop, host, port, **_given):
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    file = certificate(tmp_path / "certificate.pem", name)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", resolved)
    database = Database(tmp_path / "service.db")
    with Receiver(certificate=file) as receiver:
        rows(database, [f"https://receiver.example:{receiver.port}/hook"])
        sender = Sender(database, b"m" * 32, Policy(delay=0.01, attempts=2, allow_private=True))
        sender.start()
        try:
            event = until(lambda: next((e for e in webhooks.listed(database, None, 9)
                                        if e["state"] != "PENDING"), None), "an end")
        finally:
            sender.stop()
    if name == "receiver.example":
        assert event["state"] == "DELIVERED" and asked == ["receiver.example"]
        assert receiver.got[0][1]["host"] == f"receiver.example:{receiver.port}"
    else:
        assert event["state"] == "DEAD" and "certificate" in event["reason"].lower()
        assert receiver.got == []


def test_an_attempt_has_an_end_however_slowly_an_answer_comes(tmp_path):
    from torch_vulkan._service.jobs import webhooks
    from torch_vulkan._service.jobs.sender import Policy, Sender
    from torch_vulkan._service.storage.database import Database

    async def dripping(_reader, writer):
        while True:
            writer.write(b"H")
            await asyncio.sleep(0.02)

    async def attempt():
        server = await asyncio.start_server(dripping, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        rows(database, [url])
        sender = Sender(database, b"m" * 32, Policy(seconds=0.3, allow_private=True))
        import httpx

        async with httpx.AsyncClient() as http:
            (event,) = sender._due()
            said = await sender._attempt(http, event)
        server.close()
        return said

    database = Database(tmp_path / "service.db")
    status, fault = asyncio.run(attempt())
    assert status == 0 and fault
    assert webhooks.listed(database, None, 9)[0]["state"] == "PENDING"


def test_a_clock_that_was_set_back_delays_nothing(tmp_path):
    from torch_vulkan._service.jobs.sender import Policy, Sender
    from torch_vulkan._service.storage.database import Database
    from torch_vulkan._service.storage.tables import WebhookEvent

    database = Database(tmp_path / "service.db")
    rows(database, ["http://127.0.0.1:9/"] * 2)
    for name, later in (("msg_0", 3600), ("msg_1", 365 * 86400)):
        with database.writing() as session:
            event = session.get(WebhookEvent, name)
            event.next_at = time.time() + later
            session.add(event)
    due = Sender(database, b"m" * 32, Policy())._due()
    assert [event.id for event in due] == ["msg_1"]


def test_the_body_is_json_of_known_size(sending):
    """Reasons may be long, and a model writes them: they are in the job's details."""
    with Receiver() as receiver, sending.client() as client:
        submit(client, receiver.url, "long", model=b"x" * 100_000)
        until(receiver.ids, "the event")
        body = receiver.got[0][2]
        assert len(body) < 2000 and "reasons" not in json.loads(body)["data"]["tasks"][0]
