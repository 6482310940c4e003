"""The simulation that docs/design/0027-service-at-scale.md rests on, against what is known."""

import json
import subprocess
import sys

import pytest

from workloads.patience import patience
from workloads.queueing import Simulation, Station, quantile
from workloads.service_process import ROOT


def test_one_server_waits_as_theory_says():
    """M/M/1 at 60 %: the mean time in the system is 1 / (mu - lambda)."""
    station = Station("one", 1, lambda draw: draw.expovariate(1.0))
    made = Simulation(60_000, seed=1)
    made.come("all", 0.6, lambda _draw: [station])
    made.run()
    times = made.totals["all"]
    assert sum(times) / len(times) == pytest.approx(2.5, rel=0.1)
    assert station.utilisation(made.seconds) == pytest.approx(0.6, rel=0.05)
    assert quantile(times, .95) == pytest.approx(3.0 * 2.5, rel=0.15)  # ln 20 times the mean


def test_several_servers_and_stations_lose_nobody():
    first = Station("first", 2, lambda _draw: 1.0)
    second = Station("second", 1, lambda _draw: 0.1)
    made = Simulation(100, seed=2)
    made.come("both", 1.5, lambda _draw: [first, second])
    made.come("one", 0.1, lambda _draw: [second])
    made.run()
    assert len(first.waits) == len(made.totals["both"])
    assert len(second.waits) == len(made.totals["both"]) + len(made.totals["one"])
    assert min(made.totals["both"]) >= 1.1 - 1e-9


def test_who_comes_faster_than_is_served_waits_longer_and_longer():
    station = Station("one", 1, lambda _draw: 1.0)
    made = Simulation(100, seed=3)
    made.come("all", 3, lambda _draw: [station])
    made.run()
    assert station.utilisation(100) == pytest.approx(1, abs=0.05)
    assert station.longest > 150 and quantile(made.totals["all"], .99) > 90


def test_the_script_computes_from_given_costs(tmp_path):
    costs = {"row_bytes": 4000, "look_s": .001, "submit_s": .005, "put_s": .005, "turn_s": .1,
             "defer_s": .001, "listed_file_s": 1e-5, "http_look_s": .002, "http_poll_s": .002}
    (tmp_path / "costs.json").write_text(json.dumps(costs))
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "service_scale.py"), "--seconds", "2",
         "--requests", "60000", "--costs", str(tmp_path / "costs.json")],
        capture_output=True, text=True, timeout=patience(120))
    assert done.returncode == 0, done.stderr
    assert "one process answers 30000 requests a minute" in done.stdout
    assert "4 processes that answer" in done.stdout  # 60,000 at 60 % of 30,000
    assert "database: 1.6 TB" in done.stdout  # 2 x 2e8 rows of 4,000 bytes
