"""Forms of operators that the standard's node tests leave out, or have in float64 alone."""

import numpy as np
import onnx
import pytest
import torch

import torch_vulkan as tv


def model(text: str, opset: int = 13, ir: int = 8) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: {ir}, opset_import: ["": {opset}]>\n{text}')


def type_of(array) -> str:
    return f"float[{', '.join(map(str, array.shape))}]"


def run(proto, *arrays):
    compiled = tv.onnx.compile(proto, min_block_size=1, fallback="none")
    return compiled.run(None, {f"x{i}": x for i, x in enumerate(arrays)})[0]


@pytest.mark.parametrize("equation, shapes", [
    ("...ij,...jk->...ik", [(2, 2, 3), (2, 3, 2)]), ("...ij->...ji", [(2, 3, 4)]),
    ("...ij,...jk->...ik", [(4, 1, 2, 3), (1, 5, 3, 2)]), ("...ij,...jk", [(1, 2, 3), (5, 3, 2)]),
    ("...ii->...i", [(2, 3, 3)]), ("B...->...B", [(2, 3)]), ("...i->i...", [(2, 3)]),
    ("ij...,jk...", [(2, 3, 2), (3, 2, 2)]), ("A...,B...->AB...", [(2, 3, 4), (3, 3, 4)]),
    ("...", [(2, 3)]), ("i...,i...", [(2, 3), (2, 3)]), ("a...b,b...->...a", [(2, 3, 4), (4, 3)]),
    ("ii", [(2, 2)]), ("iij", [(3, 3, 2)]), ("ijj", [(3, 2, 2)]), ("aAa", [(2, 3, 2)]),
    ("ba", [(2, 3)]), ("bA", [(2, 3)]), ("ij,jk->ik", [(2, 1), (3, 4)]),
    ("bij,bij->bij", [(1, 2, 3), (4, 2, 3)])])
def test_einsum(equation, shapes):
    arrays = [np.random.default_rng(i).standard_normal(shape, np.float32)
              for i, shape in enumerate(shapes)]
    want = torch.einsum(equation, *map(torch.from_numpy, arrays)).numpy()
    inputs = ", ".join(f"{type_of(x)} x{i}" for i, x in enumerate(arrays))
    names = ", ".join(f"x{i}" for i in range(len(arrays)))
    got = run(model(f'g ({inputs}) => ({type_of(want)} y) '
                    f'{{ y = Einsum<equation="{equation}">({names}) }}'), *arrays)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.parametrize("equation", ["i1->i", "i.->i", "ij->ii", "i->k"])
def test_equations_that_are_none(equation):
    proto = model(f'g (float[2, 3] x0) => (float[2] y) {{ y = Einsum<equation="{equation}">(x0) }}')
    with pytest.raises(ValueError, match="Einsum"):
        tv.onnx.compile(proto, fallback="none")


@pytest.mark.parametrize("size, scales, want", [
    ((2, 4), (0.6, 0.6), [[1, 3]]),  # test_resize_downsample_nearest of opset 10
    ((2, 2), (2.0, 1.5), [[1, 1, 2], [1, 1, 2], [3, 3, 4], [3, 3, 4]]),
    ((2, 4), (1.0, 0.5), [[1, 3], [5, 7]]),
    ((2, 4), (2.0, 0.75), [[1, 3, 4]] * 2 + [[5, 7, 8]] * 2)])
def test_resize_of_opset_10(size, scales, want):
    x = np.arange(1, 1 + size[0] * size[1], dtype=np.float32).reshape(1, 1, *size)
    want = np.array(want, np.float32)[None, None]
    got = run(model(f"g ({type_of(x)} x0) => ({type_of(want)} y) "
                    f"<float[4] s = {{1.0, 1.0, {scales[0]}, {scales[1]}}}> "
                    '{ y = Resize<mode = "nearest">(x0, s) }', opset=10, ir=5), x)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("steps, batch, units", [(5, 0, 64), (0, 2, 8), (0, 0, 8), (4, 2, 8)])
def test_sequences_of_nothing_and_activations_in_any_case(steps, batch, units):
    x = np.ones((steps, batch, 4), np.float32)
    w = np.full((1, 4 * units, 4), 0.1, np.float32)
    r = np.full((1, 4 * units, units), 0.01, np.float32)
    activations = '["sigmoid", "TANH", "tanh"]'
    proto = model(
        f"g ({type_of(x)} x0, {type_of(w)} x1, {type_of(r)} x2) => "
        f"(float[{steps}, 1, {batch}, {units}] y, float[1, {batch}, {units}] h) "
        f"{{ y, h = LSTM<hidden_size = {units}, activations = {activations}>(x0, x1, x2) }}")
    compiled = tv.onnx.compile(proto, min_block_size=1, fallback="none")
    y, h = compiled.run(None, {"x0": x, "x1": w, "x2": r})
    assert y.shape == (steps, 1, batch, units) and h.shape == (1, batch, units)
    if steps and batch:
        cell = torch.nn.LSTM(4, units, bias=False)
        with torch.no_grad():
            for own, given in ((cell.weight_ih_l0, w), (cell.weight_hh_l0, r)):
                own.copy_(torch.from_numpy(given[0]))
            want, (last, _) = cell(torch.from_numpy(x))
        np.testing.assert_allclose(y[:, 0], want.numpy(), atol=1e-5)
        np.testing.assert_allclose(h, last.numpy(), atol=1e-5)
    else:
        assert not h.any()
