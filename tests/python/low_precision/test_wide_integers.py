"""float16 beside integers of 32 bits, which it does not hold: sums of products, biases."""

import numpy as np
import pytest
import torch

import torch_vulkan as tv

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
node, tensor = onnx.helper.make_node, onnx.numpy_helper.from_array
ROWS, TERMS, COLUMNS = 4, 256, 64
SCALE, WEIGHT_SCALE = np.float32(0.02), np.float32(0.001)


def model(nodes, weights):
    floats = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        nodes, "wide", [onnx.helper.make_tensor_value_info("x", floats, [ROWS, TERMS])],
        [onnx.helper.make_tensor_value_info("y", floats, [ROWS, COLUMNS])],
        [tensor(np.asarray(value), name) for name, value in weights.items()])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)],
                                  ir_version=9).SerializeToString()


def dynamic(random, weight):
    """As onnxruntime.quantization.quantize_dynamic writes it; sums pass 65504."""
    return model([node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
                  node("MatMulInteger", ["q", "w", "z"], ["sums"]),
                  node("Cast", ["sums"], ["floats"], to=onnx.TensorProto.FLOAT),
                  node("Mul", ["s", "ws"], ["scale"]),
                  node("Mul", ["floats", "scale"], ["y"])],
                 {"w": weight, "ws": WEIGHT_SCALE})


def bias(random, weight):
    """A bias in int32, and a scale that float16 has as a denormal number of few bits."""
    return model([node("QuantizeLinear", ["x", "s", "z"], ["q"]),
                  node("DequantizeLinear", ["q", "s", "z"], ["dx"]),
                  node("DequantizeLinear", ["w", "ws", "wz"], ["dw"]),
                  node("DequantizeLinear", ["b", "bs"], ["db"]),
                  node("Gemm", ["dx", "dw", "db"], ["y"])],
                 {"w": weight, "ws": WEIGHT_SCALE, "wz": np.int8(0), "s": SCALE,
                  "z": np.uint8(128), "bs": np.float32(SCALE * WEIGHT_SCALE),
                  "b": random.integers(-900000, 900000, COLUMNS).astype(np.int32)})


@pytest.mark.parametrize("made", [dynamic, bias], ids=lambda made: made.__name__)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_beside_onnxruntime(made, dtype):
    random = np.random.default_rng(torch.initial_seed() % 2**32)
    file = made(random, random.integers(-127, 128, (TERMS, COLUMNS)).astype(np.int8))
    x = random.standard_normal((ROWS, TERMS)).astype(np.float32) + 1
    (want,) = onnxruntime.InferenceSession(
        file, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    session = tv.onnx.compile(file, fallback="none", optimization_level=0,
                              enabled_precisions={torch.float32, dtype})
    (got,) = session.run(None, {"x": x})
    assert np.abs(got - want).max() <= 4 * torch.finfo(dtype).eps * np.abs(want).max()
