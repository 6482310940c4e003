"""benchmarks/quantised_models.py at its small sizes: every way has a row or a reason."""

import importlib.util
import json
import os
import subprocess
import sys

from marks import turns
from workloads.patience import patience
from workloads.service_process import ROOT

WAYS = ["eager", "inductor+graphs", "onnxruntime QDQ", "vulkan", "vulkan calibrated",
        "vulkan PT2E", "vulkan QDQ"]


def run(path, *options, **variables):
    """The case that the benchmark writes, and what it prints."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "quantised_models.py"), "--reduced", "--batch",
         "2", "--rounds", "1", "--level", "0", "--json", path, *options],
        capture_output=True, text=True, timeout=patience(600), env=os.environ | variables)
    assert done.returncode == 0, done.stdout + done.stderr
    (case,) = json.loads(path.read_text())["cases"]
    return case, done.stdout


@turns(2, group="benchmark")
def test_it_runs(tmp_path):
    case, said = run(tmp_path / "found.json", "--only", "bert", "--ways", *WAYS)
    assert (case["network"], case["batch"]) == ("BERT-base", 2)
    missing = {"inductor+graphs"}
    if importlib.util.find_spec("torchao") is None:
        missing.add("vulkan PT2E")
    assert {*case["missing"]} == missing and {*case["ways"]} == {*WAYS} - missing
    for name, row in case["ways"].items():
        assert 0 < row["min_ms"] <= row["median_ms"] and row["ratio"] > 0, name
        assert row["top_5"] > 0.9 and row["snr_db"] > (25 if "QDQ" in name else 50), name
        assert ("launches" in row) == name.startswith("vulkan"), name
        assert f" {name} " in said and f" {row['median_ms']:.3f} " in said
    assert case["ways"]["vulkan"]["ratio"] == 1
    assert case["ways"]["vulkan"]["quantising"] == 0 < case["ways"]["vulkan QDQ"]["quantising"]


@turns(2, group="benchmark")
def test_a_machine_without_torchao(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as util\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'torchao' else find(name, *rest)\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    case, said = run(tmp_path / "found.json", "--only", "resnet", "--ways", "vulkan PT2E",
                     "vulkan", PYTHONPATH=path)
    assert [*case["ways"]] == ["vulkan"]
    assert case["missing"] == {"vulkan PT2E": "skipped: torchao is not installed"}
    assert "vulkan PT2E skipped: torchao is not installed" in said
