"""2:4 sparse weights of ONNX files: vkexec --sparsity, the dry run, tv.onnx.compile."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

import torch_vulkan as tv

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from workloads.patience import patience  # noqa: E402

VKEXEC = Path(tv.__file__).parent / "bin" / "vkexec"
ONCE = ("--iterations=1", "--duration=0", "--warmUp=0", "--builderOptimizationLevel=0", "--noCache")
generator = np.random.default_rng(1)
MATRIX = generator.standard_normal((64, 24), dtype=np.float32)


def pruned(matrix):
    """Of each four neighbours in a column the two largest."""
    fours = matrix.reshape(-1, 4, matrix.shape[1])
    order = np.argsort(-np.abs(fours), axis=1, kind="stable")
    out = fours.copy()
    np.put_along_axis(out, order[:, 2:], 0, axis=1)
    return out.reshape(matrix.shape)


def model(matrix, rows=1, transposed=False):
    weight = numpy_helper.from_array(matrix.T.copy() if transposed else matrix, "w")
    node = (helper.make_node("Gemm", ["x", "w"], ["y"], transB=1) if transposed
            else helper.make_node("MatMul", ["x", "w"], ["y"]))
    graph = helper.make_graph(
        [node], "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 24])], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def outcomes(file):
    report = tv.dry_run(file, sparse_weights=True, min_block_size=1)
    return [weight["outcome"] for engine in report.engines for weight in engine["sparse"]]


@pytest.mark.parametrize("transposed", [False, True])
def test_the_dry_run_sees_the_pattern(transposed):
    assert outcomes(model(pruned(MATRIX), transposed=transposed)) == ["read as 2:4 sparse"]
    (outcome,) = outcomes(model(MATRIX, transposed=transposed))
    assert "more than two are not zero" in outcome


@pytest.mark.parametrize("matrix", [MATRIX, pruned(MATRIX)])
def test_models_are_computed_as_they_are(matrix):
    x = generator.standard_normal((1, 64), dtype=np.float32)
    compiled = tv.onnx.compile(model(matrix), sparse_weights=True, optimization_level=0)
    (y,) = compiled.run(None, {"x": x})
    np.testing.assert_allclose(y, x @ matrix, rtol=1e-5, atol=1e-5)


def output_of(folder, file, *flags):
    x = np.random.default_rng(2).standard_normal((1, 64), dtype=np.float32)
    np.save(folder / "x.npy", x)
    onnx.save(file, folder / "net.onnx")
    (folder / "out").mkdir()
    done = subprocess.run(
        [VKEXEC, f"--onnx={folder}/net.onnx", f"--loadInputs=x:{folder}/x.npy",
         f"--exportOutput={folder}/out", *ONCE, *flags],
        capture_output=True, text=True, timeout=patience(300))
    assert done.returncode == 0, done.stdout + done.stderr
    return x, np.load(folder / "out" / "y.npy"), done.stdout


@pytest.mark.parametrize("transposed", [False, True])
def test_force_prunes_by_magnitude_and_says_so(tmp_path, transposed):
    x, y, said = output_of(tmp_path, model(MATRIX, transposed=transposed), "--sparsity=force",
                           f"--saveEngine={tmp_path}/net.vke")
    np.testing.assert_allclose(y, x @ pruned(MATRIX), rtol=1e-5, atol=1e-5)
    assert "Sparsity: pruned by magnitude to two of each four neighbours: 1 of" in said
    engine = tv.Engine.load(tmp_path / "net.vke")  # has the weights that are left
    np.testing.assert_allclose(np.asarray(engine.run({"x": x})["y"]), y, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mode", ["enable", "disable"])
def test_weights_are_not_changed_otherwise(tmp_path, mode):
    x, y, said = output_of(tmp_path, model(MATRIX), f"--sparsity={mode}")
    np.testing.assert_allclose(y, x @ MATRIX, rtol=1e-5, atol=1e-5)
    assert "Sparsity" not in said
