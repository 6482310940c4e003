"""What operators set about connections and room: TLS, quotas, traces."""

import datetime
import http.server
import ipaddress
import json
import os
import subprocess
import sys
import threading

import pytest

from torch_vulkan._service.running.sandbox import bubblewrap
from torch_vulkan.service import Client, ServiceError

from workloads.service_process import (
    NO_ENVIRONMENT,
    OWN_PYTHON,
    SANDBOX,
    SCRIPT,
    SECONDS,
    Service,
    environment,
    layers,
    until,
)

QUICK = {"optimization_level": 0}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Of 127.0.0.1, signed by itself: the files of the certificate and its key."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(
        key.public_key()).serial_number(1).not_valid_before(
        now - datetime.timedelta(days=1)).not_valid_after(
        now + datetime.timedelta(days=1)).add_extension(x509.SubjectAlternativeName(
            [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False).add_extension(
        x509.BasicConstraints(True, None), True).sign(key, hashes.SHA256())
    folder = tmp_path_factory.mktemp("tls")
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption()))
    return folder / "cert.pem", folder / "key.pem"


def test_a_service_with_a_certificate_of_its_own(tmp_path, certificate, monkeypatch):
    cert, key = certificate
    service = Service(tmp_path / "data", *SANDBOX, "--tls-cert", str(cert), "--tls-key",
                      str(key)).start()
    try:
        assert service.url.startswith("https://")
        with Client(service.url, service.key, ca=cert) as client:
            assert client.health()["status"] == "ok"
            assert client.submit(layers([8, 5])[0], ["lavapipe"], name="tls/net")["id"]
        with Client(service.url, service.key) as client, pytest.raises(
                ServiceError, match="certificate") as refused:
            client.list()
        assert refused.value.code == "unreachable"
        with Client(service.url.replace("https", "http"), service.key) as client, pytest.raises(
                ServiceError):
            client.list()
        monkeypatch.setenv("TORCH_VULKAN_SERVICE_CA", str(cert))
        with service.client() as client:
            assert client.list()
    finally:
        service.stop()


@pytest.mark.parametrize("arguments, says", [
    (["--tls-cert", "{cert}"], "both"), (["--tls-key", "{key}"], "both"),
    (["--tls-cert", "{key}", "--tls-key", "{key}"], "--tls-cert"),
    (["--tls-cert", "/none.pem", "--tls-key", "{key}"], "/none.pem")],
    ids=["cert", "key", "mixed", "none"])
def test_files_that_are_no_certificate(tmp_path, certificate, arguments, says):
    cert, key = certificate
    done = subprocess.run(
        [sys.executable, SCRIPT, "serve", "--data", str(tmp_path / "data"), "--port", "0",
         "--no-sandbox", *(word.format(cert=cert, key=key) for word in arguments)],
        capture_output=True, text=True, timeout=SECONDS, env=environment())
    assert done.returncode == 1 and says in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "data").exists()


def test_a_bad_file_of_authorities_is_refused(tmp_path):
    with pytest.raises(ValueError, match="ca: "):
        Client("https://127.0.0.1:9", ca=tmp_path / "none.pem")


def test_what_a_key_may_upload(tmp_path):
    service = Service(tmp_path / "data", *SANDBOX, "--key-bytes", "20000").start()
    try:
        with service.client() as client:
            first = client.upload(b"a" * 12000)
            assert client.upload(b"b" * 8000)
            assert client.upload(b"a" * 12000) == first, "it is counted already"
            with pytest.raises(ServiceError, match="would be over its 20000") as refused:
                client.upload(b"c")
            assert (refused.value.status, refused.value.code) == (413, "quota")
            with service.client(client.create_key("other", ["submit"])["key"]) as other:
                assert other.upload(b"a" * 12000) == first, "each has its own"
                with pytest.raises(ServiceError, match="quota|over its"):
                    other.upload(b"c" * 9000)
        unfinished = service.folder / "store" / "unfinished"
        assert [*unfinished.iterdir()] == []
        for path in (service.folder / "store" / "sha256").glob("*/*"):
            os.utime(path, (0, 0))
        with service.client() as client:
            assert client.collect()["files"] == 2
            assert client.upload(b"c" * 20000), "what was removed counts no more"
    finally:
        service.stop()


def test_uploads_leave_room_on_the_disk(tmp_path):
    service = Service(tmp_path / "data", *SANDBOX, "--free-bytes", str(1 << 60)).start()
    try:
        with service.client() as client, pytest.raises(ServiceError, match="keeps") as refused:
            client.upload(b"a")
        assert (refused.value.status, refused.value.code) == (507, "full")
    finally:
        service.stop()


@pytest.mark.skipif("--no-sandbox" in SANDBOX, reason="bubblewrap makes no file systems here")
def test_a_disk_that_fills_during_an_upload(tmp_path):
    """Its store is on one of 4 MiB: nothing is kept of what does not fit, and what does is taken
    afterwards."""
    data = tmp_path / "data"
    store = data / "store"
    store.mkdir(parents=True, mode=0o700)
    data.chmod(0o700)
    small_disk = (str(bubblewrap()), "--die-with-parent", "--dev-bind", "/", "/", "--size",
                  str(4 << 20), "--tmpfs", str(store))
    service = Service(data, "--no-sandbox", "--free-bytes", "0", within=small_disk).start()
    try:
        with service.client() as client:
            with pytest.raises(ServiceError, match="no room on its disk") as refused:
                client.upload(b"a" * (8 << 20))
            assert (refused.value.status, refused.value.code) == (507, "full")
            assert client.upload(b"b" * (2 << 20)), "nothing is left of the other"
    finally:
        service.stop()


class _Collector:
    """Takes spans by OTLP over HTTP, while it is a context."""

    def __enter__(self):
        self.got = got = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                got.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_args):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_error):
        self._server.shutdown()


SPANS = """
import json, sys
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
found = []
for path in sys.argv[1:]:
    request = ExportTraceServiceRequest.FromString(open(path, "rb").read())
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                found.append([span.name, span.trace_id.hex(), span.parent_span_id.hex(),
                              span.span_id.hex(),
                              {a.key: str(a.value.string_value or a.value.int_value)
                               for a in span.attributes}])
print(json.dumps(found))
"""


@pytest.mark.skipif(bool(NO_ENVIRONMENT), reason=NO_ENVIRONMENT)
def test_a_task_is_in_the_trace_of_its_request(tmp_path):
    httpx = pytest.importorskip("httpx")
    trace = "0af7651916cd43dd8448eb211c80319c"
    with _Collector() as collector:
        service = Service(tmp_path / "data", *SANDBOX, "--traces", collector.url,
                          python=OWN_PYTHON).start()
        try:
            with service.client() as client:
                digest = client.upload(layers([8, 5])[0])
                made = httpx.post(f"{service.url}/v1/jobs", trust_env=False, headers={
                    "Authorization": f"Bearer {service.key}",
                    "traceparent": f"00-{trace}-b7ad6b7169203331-01"}, json={
                        "model": "trace/net", "model_digest": digest, "devices": ["lavapipe"],
                        "job_id": "traced", "options": QUICK})
                assert made.status_code == 201
                client.wait("traced", SECONDS)
        finally:
            service.stop()
        until(lambda: collector.got, "spans")
        files = []
        for i, (path, body) in enumerate(collector.got):
            assert path == "/v1/traces"
            files.append(tmp_path / f"{i}")
            files[-1].write_bytes(body)
    done = subprocess.run([OWN_PYTHON, "-c", SPANS, *files], capture_output=True, text=True,
                          timeout=SECONDS)
    spans = json.loads(done.stdout)
    (request,) = [span for span in spans if span[0] == "POST /v1/jobs"]
    (task,) = [span for span in spans if span[0] == "task"]
    assert request[1] == task[1] == trace
    assert request[2] == "b7ad6b7169203331" and task[2] == request[3]
    assert request[4]["http.response.status_code"] == "201"
    assert (task[4]["job"], task[4]["state"], task[4]["device"]) == (
        "traced", "COMPLETED", "lavapipe")
    (upload,) = [span for span in spans if span[0] == "POST /v1/models"]
    assert upload[1] != trace
