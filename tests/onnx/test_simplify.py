"""tv.onnx.compile(simplify=True): onnxslim before the importer."""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import torch_vulkan as tv  # noqa: E402


def model(seed=0):
    """x [n, 6] → what onnxslim folds: a constant's arithmetic, a transposition there and back, two
    equal products."""
    rng = np.random.default_rng(seed)
    nodes = [helper.make_node("Add", ["a", "a"], ["doubled"], "constants"),
             helper.make_node("Transpose", ["x"], ["t"], "there", perm=[1, 0]),
             helper.make_node("Transpose", ["t"], ["back"], "back", perm=[1, 0]),
             helper.make_node("MatMul", ["back", "doubled"], ["p"], "product"),
             helper.make_node("MatMul", ["back", "doubled"], ["q"], "again"),
             helper.make_node("Sub", ["p", "q"], ["zero"], "zero"),
             helper.make_node("Add", ["p", "zero"], ["y"], "last")]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(rng.normal(size=(6, 4)).astype("float32"), "a")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def expected(made, x):
    return x @ (2 * numpy_helper.to_array(made.graph.initializer[0]))


def test_the_same_results_of_fewer_nodes(tmp_path):
    pytest.importorskip("onnxslim")
    from torch_vulkan._onnx.simplify import simplified

    made = model()
    before = made.SerializeToString()
    assert len(simplified(made).graph.node) < len(made.graph.node)
    assert made.SerializeToString() == before, "the caller's model stays as it is"
    onnx.save(model(), tmp_path / "net.onnx", save_as_external_data=True, location="w.bin",
              size_threshold=0)
    for given in (made, before, tmp_path / "net.onnx"):
        session = tv.onnx.compile(given, simplify=True, optimization_level=0)
        for n in (1, 3):
            x = np.random.default_rng(n).normal(size=(n, 6)).astype("float32")
            np.testing.assert_allclose(session(x), expected(made, x), rtol=1e-5, atol=1e-5)


def test_a_refit_simplifies_too():
    pytest.importorskip("onnxslim")
    session = tv.onnx.compile(model(), simplify=True, optimization_level=0)
    session.refit(model(seed=1))
    x = np.random.default_rng(0).normal(size=(2, 6)).astype("float32")
    np.testing.assert_allclose(session(x), expected(model(seed=1), x), rtol=1e-5, atol=1e-5)


def test_without_onnxslim(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec",
                        lambda name, *rest: None if name == "onnxslim" else find(name, *rest))
    with pytest.raises(ValueError, match="needs the package onnxslim: pip install onnxslim"):
        tv.onnx.compile(model(), simplify=True)
    tv.onnx.compile(model(), optimization_level=0)


def test_a_model_that_onnxslim_refuses(monkeypatch):
    onnxslim = pytest.importorskip("onnxslim")

    def fails(given):
        raise RuntimeError("cannot")

    monkeypatch.setattr(onnxslim, "slim", fails)
    with pytest.raises(ValueError, match="onnxslim fails on the model: cannot"):
        tv.onnx.compile(model(), simplify=True)


def vkexec(*arguments, without=()):
    """pip's command, in a Python that lacks packages."""
    code = ("import importlib.util, sys\nfind = importlib.util.find_spec\n"
            "importlib.util.find_spec = lambda name, *rest: (\n"
            f"    None if name in {tuple(without)!r} else find(name, *rest))\n"
            "import torch_vulkan_vkexec\ntorch_vulkan_vkexec.main()\n")
    return subprocess.run([sys.executable, "-c", code, *map(str, arguments)], text=True,
                          capture_output=True)


def test_vkexec_slims(tmp_path):
    """Files stay as they are, and the program's status is that of the command."""
    pytest.importorskip("onnxslim")
    path = tmp_path / "net.onnx"
    onnx.save(model(), path)
    before = path.read_bytes()
    for given in ([f"--onnx={path}"], ["--onnx", path]):
        done = vkexec("--slim", *given, "--skipInference", "--builderOptimizationLevel=0",
                      f"--saveEngine={tmp_path / 'net.vke'}")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "of 7 nodes left" in done.stdout and path.read_bytes() == before
    x = np.random.default_rng(3).normal(size=(2, 6)).astype("float32")
    import torch

    engine = tv.Engine.load(tmp_path / "net.vke")
    (y,) = engine.run({"x": torch.from_numpy(x[:1])}).values()
    np.testing.assert_allclose(y, expected(model(), x[:1]), rtol=1e-4, atol=1e-5)
    assert vkexec("--slim", f"--onnx={path}", "--nosuchflag").returncode == 2


@pytest.mark.parametrize("terminal", [False, True])
def test_vkexec_names_the_file_that_was_given(terminal, tmp_path):
    """And not the one that onnxslim wrote, in reports as in errors."""
    pytest.importorskip("onnxslim")
    good, bad = tmp_path / "net.onnx", tmp_path / "bad.onnx"
    onnx.save(model(), good)
    onnx.save(helper.make_model(helper.make_graph(
        [helper.make_node("NonZero", ["x"], ["y"], "bad")], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [6])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [1, "n"])]),
        opset_imports=[helper.make_opsetid("", 18)], ir_version=9), bad)
    for path, status in ((good, 0), (bad, 1)):
        arguments = ("--slim", f"--onnx={path}", "--skipInference", "--verbose",
                     "--builderOptimizationLevel=0")
        if terminal:
            code = f"""
import os, pty, sys
status = pty.spawn([sys.executable, "-c", "import torch_vulkan_vkexec as v; v.main()",
                    *{list(map(str, arguments))!r}])
sys.exit(os.waitstatus_to_exitcode(status))
"""
            done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True,
                                  stdin=subprocess.DEVNULL)
        else:
            done = vkexec(*arguments)
        said = done.stdout + done.stderr
        assert done.returncode == status, said
        assert "vkexec-slim-" not in said and f"{path}: " in said, said
    assert "NonZero" in said


@pytest.mark.parametrize("cuts", [1, 2, 7, 64])
def test_names_in_pieces(cuts):
    """Whatever pieces a text comes in."""
    import io
    import threading

    import torch_vulkan_vkexec

    text = b"a /tmp/x/net.onnx, /tmp/x/net.on /tmp/x//tmp/x/net.onnx"
    reads, writes = os.pipe()
    shown = io.BytesIO()
    relay = threading.Thread(target=torch_vulkan_vkexec._relay,
                             args=(reads, shown, {"/tmp/x/net.onnx": "mine"}))
    relay.start()
    for at in range(0, len(text), cuts):
        os.write(writes, text[at:at + cuts])
    os.close(writes)
    relay.join()
    assert shown.getvalue() == b"a mine, /tmp/x/net.on /tmp/x/mine"


def test_vkexec_slims_no_other_file(tmp_path):
    done = vkexec("--slim", "--skipInference")
    assert done.returncode == 2 and "--slim needs --onnx=FILE" in done.stderr
    assert vkexec("--slim=1").returncode == 2
    assert "--slim " in vkexec("--help").stdout
    done = vkexec("--slim", f"--onnx={tmp_path}/none.onnx", without=["onnxslim"])
    assert done.returncode == 1 and "pip install onnxslim" in done.stderr
    pytest.importorskip("onnxslim")
    done = vkexec("--slim", f"--onnx={tmp_path}/none.onnx")
    assert done.returncode == 1 and "none.onnx" in done.stderr


def test_an_output_that_nobody_reads_any_more():
    """`vkexec --slim … | head -1`: the program is told when it writes again, and does not wait."""
    import torch_vulkan_vkexec

    class Closed:
        def write(self, piece):
            raise BrokenPipeError

    source, into = os.pipe()
    os.write(into, b"lines\n")
    torch_vulkan_vkexec._relay(source, Closed(), {"old": "new"})
    with pytest.raises(BrokenPipeError):
        os.write(into, b"more")
    os.close(into)
