"""Many clients, and kill -9 at random moments."""

import pytest

from marks import slow_but
from seeds import SEED
from workloads import service_load
from workloads.service_process import SANDBOX, Service


@pytest.mark.parametrize("jobs, kills", slow_but([(16, 2)], [(16, 2), (500, 20)], rows=True))
def test_no_job_is_lost_wrong_or_there_twice(tmp_path, jobs, kills):
    service = Service(tmp_path / "data", *SANDBOX, *service_load.ARGUMENTS).start()
    try:
        assert service_load.Load(service, jobs, 8, SEED).killed(kills) == []
    finally:
        service.stop()
    assert "Traceback" not in service.log.read_text()
