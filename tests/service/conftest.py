import importlib.util

import pytest

from torch_vulkan._service.server import PACKAGES

from workloads.service_process import SANDBOX, Service

_MISSING = [name for name in PACKAGES if importlib.util.find_spec(name) is None]


def pytest_collection_modifyitems(items):
    if _MISSING:
        skip = pytest.mark.skip(reason=f"{', '.join(_MISSING)} not installed: scripts/setup.sh "
                                       "--tests")
        for item in items:
            if "tests/service/" in item.path.as_posix():
                item.add_marker(skip)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    made = Service(tmp_path_factory.mktemp("service") / "data", *SANDBOX, "--max-upload",
                   str(8 << 20), "--rate", "0").start()
    yield made
    made.stop()


@pytest.fixture
def client(service):
    with service.client() as made:
        yield made


@pytest.fixture
def own_service(tmp_path):
    """One that a test may kill."""
    made = Service(tmp_path / "data", *SANDBOX).start()
    yield made
    made.stop()
