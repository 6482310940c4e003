"""RNN, GRU and LSTM beside ONNX Runtime: entries of different lengths, and either form of GRU."""

import numpy as np
import pytest
from test_rare_forms import model, type_of

import torch_vulkan as tv

onnxruntime = pytest.importorskip("onnxruntime", reason="wants onnxruntime to compare with")

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def network(kind, units, direction, attributes, dtype):
    """(model, arrays) of 6 steps of a batch of 3, with all operands that have no activations."""
    draw = np.random.default_rng(units)
    rows, ways = GATES[kind] * units, 2 if direction == "bidirectional" else 1
    arrays = [draw.uniform(-1, 1, shape).astype(dtype) / np.sqrt(shape[-1]).astype(dtype)
              for shape in ((6, 3, 5), (ways, rows, 5), (ways, rows, units), (ways, 2 * rows))]
    arrays.append(np.array([6, 1, 4], np.int32))
    arrays += [draw.uniform(-1, 1, (ways, 3, units)).astype(dtype)
               for _ in range(2 if kind == "LSTM" else 1)]
    element = "float16" if dtype == np.float16 else "float"
    inputs = ", ".join(f"{type_of(x).replace('float', element)} x{i}".replace(
        f"{element}[3] x4", "int32[3] x4") for i, x in enumerate(arrays))
    outputs = ["y", "h", "c"][:3 if kind == "LSTM" else 2]
    given = ", ".join(f"x{i}" for i in range(len(arrays)))
    results = ", ".join(f"{element}[{', '.join(map(str, shape))}] {name}" for name, shape in zip(
        outputs, [(6, ways, 3, units), (ways, 3, units), (ways, 3, units)]))
    how = f'hidden_size = {units}, direction = "{direction}"{attributes}'
    text = f"g ({inputs}) => ({results}) {{ {', '.join(outputs)} = {kind}<{how}>({given}) }}"
    return model(text, opset=14), {f"x{i}": x for i, x in enumerate(arrays)}


@pytest.mark.parametrize("units", [5, 68, 70])
@pytest.mark.parametrize("kind, attributes", [
    ("RNN", ""), ("LSTM", ""), ("GRU", ""), ("GRU", ", linear_before_reset = 1")])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_entries_of_different_lengths(kind, attributes, direction, units):
    """70 units are no multiple of 4: a CPU driver leaves them to ONNX Runtime."""
    proto, feed = network(kind, units, direction, attributes, np.float32)
    want = onnxruntime.InferenceSession(proto.SerializeToString(),
                                        providers=["CPUExecutionProvider"]).run(None, feed)
    cpu = tv.devices()[0].type == "cpu"
    compiled = tv.onnx.compile(proto, min_block_size=1,
                               fallback="onnxruntime" if units == 70 and cpu else "none")
    got = compiled.run(None, feed)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6)


@pytest.mark.parametrize("kind", GATES)
def test_16_bit_floats(kind):
    """ONNX Runtime has none: beside its float32, from the same rounded values."""
    proto, feed = network(kind, 68, "bidirectional", "", np.float16)
    exact, _ = network(kind, 68, "bidirectional", "", np.float32)
    wide = {name: x.astype(np.float32) if x.dtype == np.float16 else x for name, x in feed.items()}
    want = onnxruntime.InferenceSession(exact.SerializeToString(),
                                        providers=["CPUExecutionProvider"]).run(None, wide)
    got = tv.onnx.compile(proto, min_block_size=1, fallback="none").run(None, feed)
    for a, b in zip(got, want, strict=True):
        assert a.dtype == np.float16
        np.testing.assert_allclose(a.astype(np.float32), b, atol=4e-3)
