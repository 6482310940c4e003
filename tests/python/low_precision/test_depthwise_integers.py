"""Depthwise convolutions of 8-bit integers have ONNX Runtime's sums."""

import numpy as np
import pytest
import torch

import torch_vulkan as tv

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

CASES = {
    "plain": ((2, 24, 9, 12), {"pads": [1, 1, 1, 1]}),
    "strides": ((1, 40, 11, 13), {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "dilated": ((1, 16, 12, 12), {"pads": [2, 2, 2, 2], "dilations": [2, 2]}),
    "several outputs a channel": ((1, 8, 9, 16), {"pads": [0, 1, 0, 1], "outputs": 3}),
    "large windows": ((1, 16, 14, 14), {"pads": [3, 3, 3, 3], "window": 7}),
}


def model(x_shape, weight, x_zero, w_zero, attributes):
    tensor = onnx.numpy_helper.from_array
    rank = len(x_shape)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("ConvInteger", ["x", "w", "xz", "wz"], ["y"], group=x_shape[1],
                               **attributes)],
        "depthwise", [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, x_shape)],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT32, [None] * rank)],
        [tensor(weight, "w"), tensor(x_zero, "xz"), tensor(w_zero, "wz")])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)],
                                  ir_version=8).SerializeToString()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("signed", [False, True], ids=["uint8", "int8"])
def test_beside_onnxruntime(case, signed, tactics_of):
    shape, attributes = CASES[case]
    attributes = dict(attributes)
    window, outputs = attributes.pop("window", 3), attributes.pop("outputs", 1)
    random = np.random.default_rng(torch.initial_seed() % 2**32)
    dtype = np.int8 if signed else np.uint8
    limits = np.iinfo(dtype)
    weight = random.integers(limits.min, limits.max + 1,
                             (shape[1] * outputs, 1, window, window)).astype(dtype)
    x = random.integers(0, 256, shape).astype(np.uint8)
    file = model(shape, weight, np.uint8(random.integers(256)),
                 dtype(random.integers(limits.min, limits.max)), attributes)
    (want,) = onnxruntime.InferenceSession(
        file, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    session = tv.onnx.compile(file, fallback="none", optimization_level=0)
    (got,) = session.run(None, {"x": x})
    assert (got == want).all()
    tactics = {layer["tactic"] for e in session.engines for layer in e.info()["layers"]}
    assert any(t.startswith("conv_depthwise") for t in tactics), tactics
