"""Where vkexec writes, and what it says beside that."""

import subprocess

import numpy as np
import pytest

from helpers import one_node_file
from vkexec_helpers import ONCE, VKEXEC, run

FLAGS = ["--saveEngine", "--exportTimes", "--exportOutput", "--exportProfile", "--exportLayerInfo",
         "--exportGraph"]


@pytest.fixture(scope="module")
def onnx_file(tmp_path_factory):
    return one_node_file(tmp_path_factory.mktemp("outputs") / "net.onnx", "MatMul",
                         ((2, 4), (2, 3)), np.full((4, 3), 0.5, np.float32))


@pytest.mark.parametrize("flag", FLAGS)
def test_a_folder_that_is_not_there_is_said_before_anything_runs(flag, onnx_file, tmp_path):
    name = "out.svg" if flag == "--exportGraph" else "out.json"
    said = run(f"--onnx={onnx_file}", f"{flag}={tmp_path}/missing/{name}", code=2)
    assert f"there is no folder {tmp_path}/missing: make it first" in said
    assert "RUNNING" not in said


def test_an_engine_on_standard_output_is_alone_there(onnx_file, tmp_path):
    done = subprocess.run([VKEXEC, f"--onnx={onnx_file}", "--saveEngine=/dev/stdout",
                           "--skipInference"], capture_output=True, check=True)
    assert b"&&&& PASSED" in done.stderr
    path = tmp_path / "net.vke"
    path.write_bytes(done.stdout)
    assert "PASSED" in run(f"--loadEngine={path}", *ONCE)


def test_int8_of_a_float_file_says_what_it_needs(onnx_file):
    said = run(f"--onnx={onnx_file}", "--int8", "--skipInference", code=1)
    assert "--calib=FILE" in said and "calibration_cache" in said
    for _ in range(2):  # built, and from the cache
        done = subprocess.run([VKEXEC, f"--onnx={onnx_file}", "--best", "--skipInference"],
                              capture_output=True, text=True, check=True)
        assert "[W] --best: nothing is computed in int8" in done.stderr


def test_the_help_of_debug_is_that_of_both_commands():
    said = run("debug", "--help")
    assert "vkexec debug precision" in said and "vkexec debug reduce" in said


def test_no_proposal_for_a_name_of_one_letter(onnx_file):
    said = run(f"--onnx={onnx_file}", "--loadInputs=q:q.bin", code=1)
    assert "there is no input 'q'; the inputs are x" in said and "did you mean" not in said
