"""com.microsoft's attention operators: masks, caches, packed operands, rotary embedding."""

import numpy
import pytest

import torch_vulkan as tv

pytest.importorskip("onnxruntime")
from contrib_nodes import check, node_model

from marks import turns

BATCH, LENGTH, HEADS, SIZE = 2, 5, 3, 8
WIDTH = HEADS * SIZE


def random(*shape, seed=0, dtype="float32"):
    return numpy.random.default_rng(seed).standard_normal(shape).astype(dtype)


MASKS = {
    "none": None,
    "ends": numpy.array([5, 3], "int32"),
    "ends and starts": numpy.array([5, 4, 0, 1], "int32"),
    "keys": numpy.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], "int32"),
    "pairs": (numpy.random.default_rng(5).random((BATCH, LENGTH, LENGTH)) < 0.7).astype("int32"),
    "nothing": numpy.zeros((BATCH, LENGTH), "int32"),
}


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("mask", MASKS)
def test_attention(mask, causal):
    check("Attention", {"x": random(BATCH, LENGTH, 11), "w": random(11, 3 * WIDTH, seed=1),
                        "b": random(3 * WIDTH, seed=2), "m": MASKS[mask]},
          num_heads=HEADS, unidirectional=causal, constants=("w", "b"), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scale, hidden", [(0.2, None), (None, -3.4028234663852886e38)])
def test_attention_numbers(scale, hidden):
    attributes = {"scale": scale, "mask_filter_value": hidden}
    check("Attention", {"x": random(BATCH, LENGTH, 11), "w": random(11, 3 * WIDTH, seed=1),
                        "b": random(3 * WIDTH, seed=2), "m": MASKS["keys"]},
          num_heads=HEADS, rtol=1e-4, atol=1e-4,
          **{n: v for n, v in attributes.items() if v is not None})


def test_attention_of_other_values():
    """Values of another size than keys, no bias, and sizes that calls choose."""
    check("Attention", {"x": random(BATCH, LENGTH, 11), "w": random(11, 2 * WIDTH + 12, seed=1),
                        "b": random(2 * WIDTH + 12, seed=3), "m": MASKS["keys"]},
          num_heads=HEADS, qkv_hidden_sizes=[WIDTH, WIDTH, 12], rtol=1e-4, atol=1e-4,
          dims={"x": ("n", "t", 11), "m": ("n", "t")})


@pytest.mark.parametrize("causal", [0, 1])
def test_attention_with_past(causal):
    check("Attention", {"x": random(BATCH, LENGTH, 11), "w": random(11, 3 * WIDTH, seed=1),
                        "b": random(3 * WIDTH, seed=2), "m": None,
                        "past": random(2, BATCH, HEADS, 2, SIZE, seed=3)}, 2,
          num_heads=HEADS, unidirectional=causal, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(1, HEADS), (BATCH, 1), (BATCH, HEADS)])
@pytest.mark.parametrize("causal", [0, 1])
def test_attention_bias(causal, shape):
    check("Attention", {"x": random(BATCH, LENGTH, 11), "w": random(11, 3 * WIDTH, seed=1),
                        "b": random(3 * WIDTH, seed=2), "m": None, "past": None,
                        "bias": random(*shape, LENGTH, LENGTH, seed=4)},
          num_heads=HEADS, unidirectional=causal, rtol=1e-4, atol=1e-4)


# --- MultiHeadAttention ---

def rows(length, seed=0, width=WIDTH):
    return random(BATCH, length, width, seed=seed)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("mask", ["none", "ends", "keys", "pairs"])
def test_multi_head_attention(mask, causal):
    check("MultiHeadAttention", {"q": rows(5), "k": rows(5, 1), "v": rows(5, 2), "b": None,
                                 "m": MASKS[mask]},
          num_heads=HEADS, unidirectional=causal, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bias", [True, False])
def test_cross_attention(bias):
    inputs = {"q": rows(5), "k": rows(7, 1), "v": rows(7, 2, 12),
              "b": random(2 * WIDTH + 12, seed=3) if bias else None, "m": None,
              "a": random(1, HEADS, 5, 7, seed=4)}
    check("MultiHeadAttention", inputs, num_heads=HEADS, rtol=1e-4, atol=1e-4,
          dims={"q": ("n", 5, WIDTH), "k": ("n", 7, WIDTH), "v": ("n", 7, 12)})


def test_cached_cross_attention():
    check("MultiHeadAttention", {"q": rows(5), "k": random(BATCH, HEADS, 7, SIZE, seed=1),
                                 "v": random(BATCH, HEADS, 7, SIZE, seed=2)},
          num_heads=HEADS, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("length", [1, 3])
def test_multi_head_attention_with_past(length, causal):
    past = [random(BATCH, HEADS, 4, SIZE, seed=s) for s in (5, 6)]
    mask = numpy.ones((BATCH, 4 + length), "int32")
    mask[0, :2] = 0
    check("MultiHeadAttention",
          {"q": rows(length), "k": rows(length, 1), "v": rows(length, 2),
           "b": random(3 * WIDTH, seed=3), "m": mask, "a": None, "pk": past[0], "pv": past[1]}, 3,
          num_heads=HEADS, unidirectional=causal, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("length", [1, 3])
def test_causal_queries_of_dynamic_number(length):
    past = [random(BATCH, HEADS, 4, SIZE, seed=s) for s in (5, 6)]
    check("MultiHeadAttention",
          {"q": rows(length), "k": rows(length, 1), "v": rows(length, 2), "b": None, "m": None,
           "a": None, "pk": past[0], "pv": past[1]}, 3,
          num_heads=HEADS, unidirectional=1, rtol=1e-4, atol=1e-4,
          dims={**{n: (BATCH, "t", WIDTH) for n in "qkv"},
                **{n: (BATCH, HEADS, "p", SIZE) for n in ("pk", "pv")}})


def test_causal_queries_of_other_keys():
    """ONNX Runtime has no causal mask for one query, which sees all keys; a call says whether there
    is one."""
    inputs = {"q": rows(1), "k": rows(7, 1), "v": rows(7, 2)}
    check("MultiHeadAttention", inputs, num_heads=HEADS, unidirectional=1, rtol=1e-4, atol=1e-4)
    made, _ = node_model("MultiHeadAttention", inputs, num_heads=HEADS, unidirectional=1,
                         dims={"q": (BATCH, "t", WIDTH)})
    with pytest.raises(tv.UnsupportedError, match="a causal mask of a dynamic number of queries"):
        tv.onnx.compile(made, fallback="none")


def test_packed_operands():
    """The CPU provider takes none of the packed forms: the unpacked ones say what they give."""
    q, k, v = (random(BATCH, LENGTH, HEADS, SIZE, seed=s) for s in range(3))
    made, feed = node_model("MultiHeadAttention", {
        n: x.reshape(BATCH, LENGTH, WIDTH) for n, x in (("q", q), ("k", k), ("v", v))},
        num_heads=HEADS)
    want = tv.onnx.compile(made, optimization_level=0, fallback="none").run(None, feed)
    check("MultiHeadAttention", {"q": numpy.stack([q, k, v], 3)}, num_heads=HEADS, want=want)
    check("MultiHeadAttention", {"q": q.reshape(BATCH, LENGTH, WIDTH),
                                 "k": numpy.stack([k, v], 3)}, num_heads=HEADS, want=want)


# --- RotaryEmbedding ---

def tables(places=16, half=SIZE // 2, dtype="float32"):
    angles = numpy.random.default_rng(7).uniform(-3, 3, (places, half))
    return numpy.cos(angles).astype(dtype), numpy.sin(angles).astype(dtype)


@turns(2)
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("form", ["rows", "heads", "part"])
@pytest.mark.parametrize("ids", [numpy.array([3]),
                                 numpy.array([[0, 1, 2, 3, 4], [7, 5, 9, 2, 0]])])
def test_rotary_embedding(ids, form, interleaved):
    cos, sin = tables(half=SIZE // 4 if form == "part" else SIZE // 2)
    x = random(BATCH, HEADS, LENGTH, SIZE) if form == "heads" else rows(LENGTH)
    attributes = {"num_heads": HEADS, "rotary_embedding_dim": SIZE // 2} if form == "part" else {}
    check("RotaryEmbedding", {"x": x, "ids": ids, "cos": cos, "sin": sin},
          constants=("cos", "sin"), interleaved=interleaved, **attributes)


# --- GroupQueryAttention ---

def grouped(length, past=None, lengths=None, rotary=False, packed=False, dtype="float32",
            size=16, bias=False, sink=False):
    """Inputs of 4 heads with 2 of keys; `past`: rows of the caches that come in, `lengths`: of
    each batch, with the new tokens, what it has filled."""
    heads, kv_heads = 4, 2
    make = lambda *shape, seed: random(*shape, seed=seed, dtype=dtype)  # noqa: E731
    lengths = numpy.array([length, length] if lengths is None else lengths, "int32")
    batch, total = len(lengths), int(lengths.max())
    q, k, v = (make(batch, length, n * size, seed=s)
               for s, n in enumerate((heads, kv_heads, kv_heads)))
    cos, sin = tables(32, size // 2, dtype) if rotary else (None, None)
    inputs = {"q": numpy.concatenate([q, k, v], 2) if packed else q,
              "k": None if packed else k, "v": None if packed else v,
              "pk": None if past is None else make(batch, kv_heads, past, size, seed=3),
              "pv": None if past is None else make(batch, kv_heads, past, size, seed=4),
              "lengths": lengths - 1, "total": numpy.array([total], "int32"),
              "cos": cos, "sin": sin, "ids": None,
              "bias": make(1, heads, length, total, seed=5) if bias else None,
              "sink": make(heads, seed=6) if sink else None}
    return inputs, {"num_heads": heads, "kv_num_heads": kv_heads, "do_rotary": int(rotary)}


CASES = {
    "prompt": {"length": 6},
    "prompt, packed": {"length": 6, "packed": True, "rotary": True},
    "step": {"length": 1, "past": 6, "lengths": [7, 7]},
    "step, rotary": {"length": 1, "past": 6, "lengths": [7, 7], "rotary": True},
    "step of rows apart": {"length": 1, "past": 6, "lengths": [4, 7], "rotary": True},
    "buffer": {"length": 1, "past": 12, "lengths": [4, 7], "rotary": True, "packed": True},
    "prompt into a buffer": {"length": 6, "past": 12, "rotary": True},
    "more of a prompt": {"length": 3, "past": 5, "lengths": [8], "rotary": True},
    "bias": {"length": 1, "past": 6, "lengths": [7, 7], "bias": True},
    "sink": {"length": 6, "sink": True},
}
WAYS = {"plain": {}, "window": {"local_window_size": 3}, "cap": {"softcap": 0.7},
        "smooth": {"smooth_softmax": 1}, "scale": {"scale": 0.3}}


@turns(2)
@pytest.mark.parametrize("case, way, dtype", [
    *((case, "plain", "float32") for case in CASES),
    *(("step of rows apart", way, "float32") for way in WAYS if way != "plain"),
    *(("prompt", way, "float32") for way in WAYS if way != "plain"),
    ("step of rows apart", "plain", "float16"), ("prompt, packed", "plain", "float16")])
def test_group_query_attention(case, way, dtype):
    inputs, attributes = grouped(**CASES[case], dtype=dtype)
    check("GroupQueryAttention", inputs, 3, constants=("total",), **attributes, **WAYS[way],
          rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_positions_of_grouped_queries(interleaved):
    inputs, attributes = grouped(1, 6, [7, 7], rotary=True)
    inputs["ids"] = numpy.array([[3], [5]], "int64")
    check("GroupQueryAttention", inputs, 3, constants=("total", "cos", "sin"), **attributes,
          rotary_interleaved=interleaved, rtol=1e-4, atol=1e-4)


def test_steps_of_any_length():
    """One engine serves caches that grow: their sizes are symbols, `total` follows from them."""
    from contrib_nodes import compare, reference
    from onnx import TensorProto, helper
    inputs, attributes = grouped(1, 6, [7, 7], rotary=True)
    made, feed = node_model("GroupQueryAttention", inputs, 3, constants=("cos", "sin"),
                            dims={"pk": ("n", 2, "past", 16), "pv": ("n", 2, "past", 16),
                                  **{n: ("n", *inputs[n].shape[1:]) for n in ("q", "k", "v")},
                                  "lengths": ("n",)}, **attributes)
    del made.graph.input[[i.name for i in made.graph.input].index("total")]
    for node in (helper.make_node("Shape", ["mask"], ["size"], "size", start=1, end=2),
                 helper.make_node("Cast", ["size"], ["total"], "cast", to=TensorProto.INT32)):
        made.graph.node.insert(len(made.graph.node) - 1, node)
    made.graph.input.append(
        helper.make_tensor_value_info("mask", TensorProto.INT64, ("n", "total")))
    session = tv.onnx.compile(made, optimization_level=0, fallback="none")
    for past in (6, 3):
        inputs, _ = grouped(1, past, [past + 1] * 2, rotary=True)
        feed = {n: a for n, a in inputs.items()
                if a is not None and n not in ("total", "cos", "sin")}
        feed["mask"] = numpy.ones((2, past + 1), "int64")
        compare(session.run(None, feed), reference(made, feed), 1e-4, 1e-4)
    assert len(session.engines) == 1


# --- what is refused ---

@pytest.mark.parametrize("op, attributes, message", [
    ("Attention", {"do_rotary": 1}, "attribute do_rotary is 1, want 0"),
    ("Attention", {"past_present_share_buffer": 1}, "past_present_share_buffer is 1"),
    ("Attention", {"whatever": 1}, "attribute whatever is not known"),
])
def test_attributes_that_are_refused(op, attributes, message):
    made, _ = node_model(op, {"x": random(BATCH, LENGTH, 11), "w": random(11, 3 * WIDTH),
                              "b": random(3 * WIDTH)}, num_heads=HEADS, **attributes)
    with pytest.raises(tv.UnsupportedError, match=message):
        tv.onnx.compile(made, fallback="none")


@pytest.mark.parametrize("attributes, message", [
    ({"k_quant_type": "PER_TENSOR"}, "a quantised cache"), ({"causal": 0}, "causal is 0, want 1"),
    ({"qk_output": 1}, "qk_output is 1, want 0"),
    ({"local_window_size": 0}, "local_window_size is 0, want -1 or more than 0"),
    ({"local_window_size": -2}, "local_window_size is -2, want -1 or more than 0")])
def test_grouped_attributes_that_are_refused(attributes, message):
    inputs, required = grouped(4)
    made, _ = node_model("GroupQueryAttention", inputs, 3, constants=("total",), **required,
                         **attributes)
    with pytest.raises(tv.UnsupportedError, match=message):
        tv.onnx.compile(made, fallback="none")
