"""Products of pairs that share an input are one product of integers, with the results of each."""

import numpy
from onnx import helper
from test_quantised import number

import torch_vulkan as tv

from onnx_models import model, tensor, weight

WIDTHS = (48, 16, 32)  # of query, key and value
STEPS = 64


def projections(outputs):
    """x, quantised and back, times matrices of int8 [STEPS, width] with a scale for each column, of
    the last one for all."""
    rng = numpy.random.default_rng(0)
    weights = [number("x_scale", 0.03), number("x_zero", 3, "int8")]
    nodes = [helper.make_node("QuantizeLinear", ["x", "x_scale", "x_zero"], ["q"], "quantise"),
             helper.make_node("DequantizeLinear", ["q", "x_scale", "x_zero"], ["d"], "input")]
    for i, width in enumerate(WIDTHS):
        matrix = rng.integers(-127, 128, (STEPS, width), dtype=numpy.int8)
        scales = numpy.float32(rng.random(width) / 100 + 0.001)
        if i not in outputs:
            continue
        one = i == len(WIDTHS) - 1
        weights += [weight(f"w{i}", matrix), weight(f"s{i}", scales[0] if one else scales)]
        nodes += [helper.make_node("DequantizeLinear", [f"w{i}", f"s{i}"], [f"d{i}"],
                                   f"weight{i}", **({} if one else {"axis": 1})),
                  helper.make_node("MatMul", ["d", f"d{i}"], [f"y{i}"], f"product{i}")]
    return model(nodes, [tensor("x", [7, STEPS])], [tensor(f"y{i}", None) for i in outputs],
                 weights, 19)


def test_projections():
    feed = {"x": numpy.random.default_rng(1).standard_normal((7, STEPS), dtype=numpy.float32)}

    def run(outputs):
        session = tv.onnx.compile(projections(outputs), optimization_level=0, fallback="none")
        return session.engine.info()["layers"], session.run(None, feed)

    layers, merged = run([0, 1, 2])
    products = {layer["name"].split("/")[0] for layer in layers
                if layer["tactic"].startswith("matmul_integer")}
    assert len(products) == 1, products
    for i, got in enumerate(merged):
        assert numpy.array_equal(got, run([i])[1][0]), i
