"""The service on PostgreSQL: the same jobs, a server that goes away, and many kills."""

import re

import pytest

from torch_vulkan._service.storage.database import Database
from torch_vulkan.service import ServiceError

from marks import slow_but
from seeds import SEED
from workloads import postgresql, service_load
from workloads.service_process import (
    NO_ENVIRONMENT,
    OWN_PYTHON,
    SANDBOX,
    SECONDS,
    Service,
    layers,
    until,
)

pytestmark = pytest.mark.skipif(bool(postgresql.WHY_NOT or NO_ENVIRONMENT),
                                reason=postgresql.WHY_NOT or NO_ENVIRONMENT)
QUICK = {"optimization_level": 0}


@pytest.fixture
def server():
    with postgresql.PostgreSQL() as made:
        yield made


def on(server, folder, *arguments):
    return Service(folder, *SANDBOX, "--database", server.url, *arguments, python=OWN_PYTHON)


def test_a_service_whose_database_comes_and_goes(server, tmp_path):
    service = on(server, tmp_path / "data").start()
    try:
        with service.client() as client:
            client.submit(layers([8, 5])[0], ["lavapipe"], name="pg/net", job_id="one",
                          options=QUICK)
            assert client.wait("one", SECONDS)["state"] == "COMPLETED"
            assert not (service.folder / "service.db").exists()
            for ask in (lambda: client.create_key("a\0b", ["read"]),
                        lambda: client.details("a\0b"), lambda: client.artifacts("a\0b")):
                with pytest.raises(ServiceError) as refused:
                    ask()
                assert refused.value.status in (404, 422), "no text of PostgreSQL's"
            assert client.list(before=2 ** 62)[0]["id"] == "one"
            server.kill()
            with pytest.raises(ServiceError) as away:
                client.list()
            assert (away.value.status, away.value.code) == (503, "database_away")
            server.start()
            until(lambda: _jobs(client) == ["one"], "the list")
            client.submit(layers([8, 6])[0], ["lavapipe"], name="pg/net", job_id="two",
                          options=QUICK)
            assert client.wait("two", SECONDS)["state"] == "COMPLETED"
            assert len(client.artifacts("pg/net")) == 2
            assert client.collect(job_days=0)["jobs"] == 2
    finally:
        service.stop()
    assert "Traceback" not in service.log.read_text()


def _jobs(client):
    try:
        return [job["id"] for job in client.list()]
    except ServiceError as error:
        assert error.status == 503
        return None


def test_a_database_has_one_service(server, tmp_path):
    first = on(server, tmp_path / "first").start()
    second = on(server, tmp_path / "second")
    try:
        with pytest.raises(AssertionError, match="another service uses it"):
            second.start()
    finally:
        first.stop()
    second.start()
    second.stop()
    password = re.search(":(\\w+)@", server.url)[1]
    assert password not in first.log.read_text() + second.log.read_text()


@pytest.mark.parametrize("jobs, kills", slow_but([(12, 1)], [(12, 1), (100, 8)], rows=True))
def test_no_job_is_lost_on_it(server, tmp_path, jobs, kills):
    service = on(server, tmp_path / "data", *service_load.ARGUMENTS).start()
    try:
        assert service_load.Load(service, jobs, 8, SEED).killed(kills) == []
    finally:
        service.stop()
    assert "Traceback" not in service.log.read_text()


@pytest.mark.parametrize("url", ["mysql://a@b/c", "no url"])
def test_other_databases_are_refused(url):
    with pytest.raises(ValueError, match="postgresql://USER@HOST/NAME"):
        Database(url)
