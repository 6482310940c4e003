"""What /openapi.json and its page say is what the service answers."""

import re

import jsonschema
import pytest

from workloads.service_process import SECONDS, layers

httpx = pytest.importorskip("httpx", reason="httpx is not installed: scripts/setup.sh --tests")
DIGEST = "sha256:" + "0" * 64


@pytest.fixture(scope="module")
def http(service):
    with httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {service.key}"},
                      timeout=SECONDS) as made:
        yield made


@pytest.fixture(scope="module")
def described(http):
    return http.get("/openapi.json").json()


class Asked:
    """Sends requests and compares each answer with what is described."""

    def __init__(self, http, described):
        self._http, self._described, self.seen = http, described, set()

    def __call__(self, method, path, route=None, expect=None, **given):
        answer = self._http.request(method, path, **given)
        operation = self._described["paths"][route or path][method.lower()]
        status = str(answer.status_code)
        assert expect is None or answer.status_code == expect, answer.text
        assert ("requestBody" in operation) == bool({"json", "content"} & {*given}), operation
        found = operation["responses"].get(status, operation["responses"].get(f"{status[0]}XX"))
        (media_type, content), = found["content"].items()
        assert answer.headers["content-type"].partition(";")[0] == media_type
        if media_type == "application/json" and content["schema"] != {"type": "string"}:
            schema = content["schema"] | {"components": self._described["components"]}
            jsonschema.validate(answer.json(), schema)
        if answer.status_code < 300:
            self.seen.add((method, route or path))
        return answer


def test_each_answer_is_what_is_described(http, described, client):
    ask = Asked(http, described)
    model = layers([8, 5])[0]
    digest = ask("POST", "/v1/models", content=model, expect=201).json()["digest"]
    job = {"job_id": "described", "model": "described/net", "model_digest": digest,
           "devices": ["lavapipe"], "notify": "https://localhost/x"}
    ask("POST", "/v1/jobs", json=job, expect=201)
    ask("POST", "/v1/jobs", json=job, expect=200)
    ask("POST", "/v1/jobs", json=job | {"devices": ["none"]}, expect=409)
    ask("POST", "/v1/jobs", json={"x": 1}, expect=422)
    client.wait("described", SECONDS)
    one = ("/v1/jobs/described", "/v1/jobs/{job_id}")
    assert ask("GET", *one, expect=200).json()["webhook"]
    ask("GET", "/v1/jobs/none", one[1], expect=404)
    ask("GET", one[0] + "/logs", one[1] + "/logs", expect=200)
    ask("GET", "/v1/jobs", expect=200)
    ask("DELETE", *one, expect=200)
    (event,) = [e for e in ask("GET", "/v1/webhooks", expect=200).json()["webhooks"]
                if e["job"] == "described"]
    ask("POST", f"/v1/webhooks/{event['id']}/retry", "/v1/webhooks/{event_id}/retry", expect=200)
    ask("GET", "/v1/webhooks/secret", expect=200)
    (made,) = [a for a in ask("GET", "/v1/artifacts", expect=200).json()["artifacts"]
               if a["model"] == "described/net" and a["level"] == 0]
    engine = ask("GET", f"/v1/artifacts/{made['engine_digest']}", "/v1/artifacts/{digest}",
                 expect=200).content
    ask("GET", f"/v1/artifacts/{DIGEST}", "/v1/artifacts/{digest}", expect=404)
    uploaded = ask("POST", "/v1/engines", content=engine, expect=201).json()["digest"]
    published = {"model": "described/published", "model_digest": digest,
                 "engine_digest": uploaded}
    ask("POST", "/v1/artifacts", json=published, expect=201)
    ask("POST", "/v1/artifacts", json=published, expect=200)
    ask("GET", "/v1/signing-key", expect=200)
    (device,) = ask("GET", "/v1/devices", expect=200).json()["devices"][:1]
    ask("PUT", "/v1/devices/other", "/v1/devices/{name}", expect=201,
        json={"profile": device["profile"] | {"name": "other"}})
    timings = ask("GET", "/v1/timings/lavapipe", "/v1/timings/{name}")
    ask("POST", "/v1/timings/lavapipe", "/v1/timings/{name}", expect=200 if timings.is_success
        else None, content=timings.content if timings.is_success else b"{}")
    key = ask("POST", "/v1/keys", json={"name": "described", "scopes": ["read"]},
              expect=201).json()["id"]
    ask("GET", "/v1/keys", expect=200)
    ask("DELETE", f"/v1/keys/{key}", "/v1/keys/{key_id}", expect=200)
    ask("POST", "/v1/gc", json={"dry_run": True}, expect=200)
    ask("GET", "/v1/health", expect=200)
    ask("GET", "/metrics", expect=200)
    every = {(method.upper(), path) for path, of_path in described["paths"].items()
             for method in of_path}
    assert every - ask.seen <= {("GET", "/v1/timings/{name}"), ("POST", "/v1/timings/{name}")}


def test_the_page_shows_every_route_and_object(http, described):
    answer = http.get("/docs", headers={"Authorization": ""})
    assert answer.status_code == 200 and "default-src 'none'" in answer.headers[
        "content-security-policy"]
    page = answer.text
    assert "<script" not in page
    for path, of_path in described["paths"].items():
        for method, given in of_path.items():
            assert f"{method.upper()} <code>{path}</code>" in page
            assert given.get("description"), f"{method} {path} says nothing"
    shown = {*re.findall(r"id='([^']+)'", page)}
    assert {*described["components"]["schemas"]} <= shown
    assert {*re.findall(r"href=['\"]#([^'\"]+)", page)} <= shown
