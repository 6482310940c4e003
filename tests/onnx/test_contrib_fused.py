"""com.microsoft's activations, normalisations, products and convolutions."""

import numpy
import pytest
import torch

import torch_vulkan as tv

pytest.importorskip("onnxruntime")
from contrib_nodes import check, node_model

FLOATS = ["float32", "float16"]


def random(shape, dtype="float32", seed=0, scale=1.0):
    rng = numpy.random.default_rng(seed)
    return (scale * rng.standard_normal(shape)).astype(dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op, bias", [("Gelu", False), ("FastGelu", False), ("FastGelu", True),
                                      ("BiasGelu", True)])
def test_gelu(op, bias, dtype):
    inputs = {"x": random((3, 5, 22), dtype, scale=3)}
    if bias:
        inputs["b"] = random(22, dtype, 1)
    check(op, inputs, dims={"x": ("n", 5, 22)}, constants=("b",) if bias else ())


@pytest.mark.parametrize("alpha", [None, 1.0, -0.7])
@pytest.mark.parametrize("dtype", FLOATS)
def test_quick_gelu(dtype, alpha):
    check("QuickGelu", {"x": random((3, 37), dtype, scale=3)},
          **({} if alpha is None else {"alpha": alpha}))


def test_bias_add():
    x, b, s = random((2, 6, 8)), random(8, seed=1), random((2, 6, 8), seed=2)
    check("BiasAdd", {"x": x, "b": b, "s": s}, want=[x + b + s])


def test_bias_split_gelu():
    x, b = random((2, 5, 14)), random(14, seed=1)
    left, right = (torch.from_numpy(part) for part in numpy.split(x + b, 2, axis=2))
    check("BiasSplitGelu", {"x": x, "b": b},
          want=[(left * torch.nn.functional.gelu(right)).numpy()])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(2, 3, 24), (3, 24), (1, 3, 24)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("op", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_skip_layer_norm(op, bias, shape, dtype):
    inputs = {"x": random((2, 3, 24), dtype), "s": random(shape, dtype, 1),
              "g": random(24, dtype, 2)}
    if op == "SkipLayerNormalization":
        inputs["c"] = random(24, dtype, 3)
    if bias:
        inputs["b"] = random(24, dtype, 4)
    check(op, inputs, [True, False, False, True], constants=("g",), epsilon=1e-5,
          dims={"x": ("n", 3, 24)} if shape != (2, 3, 24) else None)


def test_skip_layer_norm_without_beta():
    check("SkipLayerNormalization",
          {"x": random((2, 3, 24)), "s": random((2, 3, 24), seed=1), "g": random(24, seed=2)})


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [-1, 1])
def test_simplified_layer_norm(axis, dtype):
    x = random((2, 3, 24), dtype)
    check("SimplifiedLayerNormalization", {"x": x, "g": random(x.shape[axis:], dtype, 2)},
          domain="", axis=axis, epsilon=1e-6, constants=("g",))


def embedding(segments, mask, positions, dtype="float32"):
    rng = numpy.random.default_rng(0)
    ids = lambda high: rng.integers(0, high, (2, 7)).astype("int32")  # noqa: E731
    return {"ids": ids(11), "segments": ids(2) if segments else None,
            "words": random((11, 16), dtype, 1), "places": random((9, 16), dtype, 2),
            "kinds": random((2, 16), dtype, 3) if segments else None,
            "g": random(16, dtype, 4), "b": random(16, dtype, 5),
            "mask": (rng.random((2, 7)) < 0.7).astype("int32") if mask else None,
            "positions": ids(9) if positions else None}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("segments, mask, positions", [
    (True, True, False), (False, False, False), (True, False, True)])
def test_embed_layer_norm(segments, mask, positions, dtype):
    inputs = embedding(segments, mask, positions, dtype)
    check("EmbedLayerNormalization", inputs, [True, True, True], epsilon=1e-6,
          constants=[n for n in ("words", "places", "kinds") if inputs[n] is not None])


@pytest.mark.parametrize("kind", [0, 1])
def test_mask_index_types(kind):
    inputs = embedding(True, True, False, "float32")
    check("EmbedLayerNormalization", inputs, [True, True, True], mask_index_type=kind,
          constants=("words", "places", "kinds"))


@pytest.mark.parametrize("activation", [0, 1])
@pytest.mark.parametrize("skip, last", [
    (None, 1), ("all", 1), ((2, 12), 1), ((2, 1, 1, 12), 1),  # one of channels: they come last
    (None, 0), ("all", 0)])
def test_group_norm(skip, activation, last):
    shape = (2, 5, 7, 12) if last else (2, 12, 5, 7)
    x, weight, bias = random(shape), random(12, seed=1), random(12, seed=2)
    inputs = {"x": x, "g": weight, "c": bias}
    total = x
    if skip is not None:
        inputs["s"] = random(shape if skip == "all" else skip, seed=3)
        inputs["b"] = random(12, seed=4)
        added = inputs["s"].reshape(2, 1, 1, 12) if skip != "all" else inputs["s"]
        total = x + added + inputs["b"].reshape((1, 1, 1, 12) if last else (1, 12, 1, 1))
    y = torch.from_numpy(total)
    y = torch.nn.functional.group_norm(y.permute(0, 3, 1, 2) if last else y, 3,
                                       torch.from_numpy(weight), torch.from_numpy(bias), 1e-5)
    y = torch.nn.functional.silu(y) if activation else y
    want = [(y.permute(0, 2, 3, 1) if last else y).numpy()]
    check("GroupNorm" if skip is None else "SkipGroupNorm", inputs, 1 if skip is None else 2,
          groups=3, activation=activation, channels_last=last, epsilon=1e-5,
          want=want if skip is None else [*want, total])


# --- products ---

@pytest.mark.parametrize("a, b, flags", [
    ((5, 7), (7, 3), {}), ((7, 5), (3, 7), {"transA": 1, "transB": 1, "alpha": 0.3}),
    ((2, 4, 5, 7), (2, 4, 3, 7), {"transB": 1}), ((2, 5, 7), (7, 3), {"alpha": -2.0}),
    ((5, 2, 4, 7), (2, 4, 7, 3), {"transBatchA": 1}),
    ((7, 2, 4, 5), (7, 2, 4, 3), {"transBatchA": 1, "transBatchB": 1, "transA": 1}),
    ((5, 2, 4, 7), (3, 2, 4, 7), {"transBatchA": 1, "transBatchB": 1, "transB": 1}),
])
def test_fused_matmul(a, b, flags):
    check("FusedMatMul", {"a": random(a), "b": random(b, seed=1)}, **flags)


def test_transpose_matmul():
    check("TransposeMatMul", {"a": random((2, 7, 5)), "b": random((2, 7, 3), seed=1)}, transA=1)


@pytest.mark.parametrize("activation, numbers", [
    ("Relu", {}), ("Sigmoid", {}), ("Tanh", {}),
    ("LeakyRelu", {"activation_alpha": 0.3}),
    ("HardSigmoid", {"activation_alpha": 0.4, "activation_beta": 0.1}),
])
@pytest.mark.parametrize("bias", [True, False])
def test_fused_gemm(activation, numbers, bias):
    inputs = {"a": random((7, 5)), "b": random((3, 7), seed=1)}
    if bias:
        inputs["c"] = random(3, seed=2)
    check("FusedGemm", inputs, transA=1, transB=1, alpha=0.5, beta=2.0 if bias else 1.0,
          activation=activation, **numbers)


def test_gemm_fast_gelu():
    x, w, b = random((5, 7)), random((7, 3), seed=1), random(3, seed=2)
    want = torch.nn.functional.gelu(torch.from_numpy(x @ w + b), approximate="tanh").numpy()
    check("GemmFastGelu", {"x": x, "w": w, "b": b}, want=[want])


# --- convolutions ---

@pytest.mark.parametrize("activation, numbers", [
    ("Relu", None), ("Tanh", None), ("Sigmoid", None), ("LeakyRelu", [0.2]), ("Clip", [-0.3, 0.4]),
    ("HardSigmoid", [0.3, 0.4])])
@pytest.mark.parametrize("residual", [True, False])
def test_fused_conv(activation, numbers, residual):
    inputs = {"x": random((2, 6, 9, 8)), "w": random((4, 3, 3, 3), seed=1), "b": random(4, seed=2)}
    if residual:
        inputs["z"] = random((2, 4, 5, 4), seed=3)
    check("FusedConv", inputs, constants=("w", "b"), group=2, pads=[1, 1, 1, 1], strides=[2, 2],
          kernel_shape=[3, 3], activation=activation,
          **({} if numbers is None else {"activation_params": numbers}))


@pytest.mark.parametrize("bias", [True, False])
def test_nhwc_conv(bias):
    x, w, b = random((2, 9, 8, 6)), random((4, 3, 3, 3), seed=1), random(4, seed=2)
    y = torch.nn.functional.conv2d(
        torch.from_numpy(x).permute(0, 3, 1, 2), torch.from_numpy(w).permute(0, 3, 1, 2),
        torch.from_numpy(b) if bias else None, stride=2, padding=1, groups=2)
    check("NhwcConv", {"x": x, "w": w, **({"b": b} if bias else {})}, constants=("w",), group=2,
          pads=[1, 1, 1, 1], strides=[2, 2], want=[y.permute(0, 2, 3, 1).numpy()])


# --- what is refused ---

@pytest.mark.parametrize("op, inputs, attributes, message", [
    ("FastGelu", {"x": (2, 4)}, {"alpha": 1.0}, "attribute alpha is not known"),
    ("FusedConv", {"x": (1, 2, 5, 5), "w": (2, 2, 3, 3)}, {"activation": "Elu"},
     "the activation Elu"),
    ("FusedGemm", {"a": (2, 3), "b": (3, 4)}, {"activation": "Selu"}, "the activation Selu"),
    ("FusedGemm", {"a": (2, 3), "b": (3, 4)}, {"activation": "HardSigmoid", "activation_beta": 0.4},
     "an activation_beta without an activation_alpha"),
    ("SimplifiedLayerNormalization", {"x": (2, 4), "g": (4,)}, {"stash_type": 11, "domain": ""},
     "attribute stash_type is 11, want 1"),
    ("GroupNorm", {"x": (1, 4, 4, 8), "g": (8,), "b": (8,)}, {"groups": 2, "activation": 2},
     "attribute activation is 2, want 1"),
])
def test_what_is_refused(op, inputs, attributes, message):
    made, _ = node_model(op, {n: random(s) for n, s in inputs.items()}, **attributes)
    with pytest.raises(tv.UnsupportedError, match=message):
        tv.onnx.compile(made, fallback="none")
