"""Attention that a file has as products and a softmax: one kernel where the device has it, with
what ONNX Runtime computes, rows that are not numbers included."""

import json

import numpy
import onnx
import pytest
import torch
from onnx import helper

import torch_vulkan as tv
from torch_vulkan._base.settings import Settings
from torch_vulkan._native import C
from torch_vulkan._onnx import files

from marks import turns
from onnx_models import model, tensor, weight

onnxruntime = pytest.importorskip("onnxruntime")

B, H, M, N, D = 2, 3, 11, 13, 16


@pytest.fixture(scope="module")
def gpu():
    """The device, were it a discrete GPU: its kernels run here all the same."""
    fields = json.loads(tv.devices()[0].profile())
    return C.DeviceProfile.from_json(json.dumps(fields | {"type": "discrete"}))


class Pieces:
    """Nodes from q [B, H, M, D], k [B, H, N, D], v [B, H, N, D] to y."""

    def __init__(self):
        self.nodes, self.weights = [], []
        self.inputs = {"q": (B, H, M, D), "k": (B, H, N, D), "v": (B, H, N, D)}

    def op(self, kind, *inputs, **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], f"n{len(self.nodes)}",
                                           **attributes))
        return name

    def const(self, value):
        name = f"c{len(self.weights)}"
        self.weights.append(weight(name, numpy.asarray(value)))
        return name

    def number(self, value):
        return self.const(numpy.float32(value))

    def model(self, y):
        self.nodes.append(helper.make_node("Identity", [y], ["y"], "last"))
        return model(self.nodes, [tensor(n, s) for n, s in self.inputs.items()],
                     [tensor("y", [B, H, M, D])], self.weights)


def transposed(p):
    return p.op("Transpose", "k", perm=[0, 1, 3, 2])


def as_matrices(p):
    """As torch.onnx transposes keys: batch and heads as one dimension meanwhile."""
    flat = p.op("Reshape", "k", p.const(numpy.array([-1, N, D])))
    return p.op("Reshape", p.op("Transpose", flat, perm=[0, 2, 1]),
                p.const(numpy.array([B, H, D, N])))


def scores(p, keys):
    return p.op("MatMul", "q", keys)


def root_on_both(p):
    root = p.number(D ** -0.25)
    return p.op("MatMul", p.op("Mul", "q", root), p.op("Mul", as_matrices(p), root))


def divided(p):
    return p.op("Div", scores(p, transposed(p)), p.number(4))


def of_queries(p):
    return p.op("MatMul", p.op("Mul", "q", p.const(numpy.full((1, 1), 0.25, "float32"))),
                transposed(p))


def finish(p, s):
    return p.op("MatMul", p.op("Softmax", s, axis=-1), "v")


def finish_numbers(p, s):
    """As torch.onnx writes it: rows that are not numbers become zeros."""
    weights = p.op("Softmax", s, axis=-1)
    return p.op("MatMul", p.op("Where", p.op("IsNaN", weights), p.number(0), weights), "v")


def causal():
    return numpy.triu(numpy.full((M, N), -numpy.inf, "float32"), 1)


def hidden_row():
    """A mask that leaves one query nothing, another one key, and has numbers elsewhere."""
    mask = numpy.random.default_rng(5).standard_normal((B, 1, M, N)).astype("float32")
    mask[1, 0, 4], mask[0, 0, 2, 1:] = -numpy.inf, -numpy.inf
    return mask


CASES = {
    "plain": lambda p: finish(p, scores(p, transposed(p))),
    "scaled on both sides": lambda p: finish_numbers(p, root_on_both(p)),
    "divided": lambda p: finish(p, divided(p)),
    "scaled queries": lambda p: finish(p, of_queries(p)),
    "no mask": lambda p: finish_numbers(
        p, p.op("Add", root_on_both(p), p.const(numpy.zeros((1, 1, M, N), "float32")))),
    "causal": lambda p: finish_numbers(
        p, p.op("Add", root_on_both(p), p.const(causal()[None, None]))),
    "causal, no check": lambda p: finish(p, p.op("Add", divided(p), p.const(causal()))),
    "hidden row": lambda p: finish(p, p.op("Add", divided(p), p.const(hidden_row()))),
    "hidden row, zeros": lambda p: finish_numbers(
        p, p.op("Add", p.const(hidden_row()), divided(p))),
    "two masks": lambda p: finish(
        p, p.op("Add", p.op("Add", divided(p), p.const(hidden_row()[:1])), p.const(causal()))),
    "scaled mask": lambda p: finish(
        p, p.op("Mul", p.op("Add", scores(p, transposed(p)), p.const(causal())), p.number(0.5))),
}
PIECES = {"two masks", "scaled mask"}  # stay what they are


def random(p):
    rng = numpy.random.default_rng(0)
    return {n: rng.standard_normal(s).astype("float32") for n, s in p.inputs.items()}


def wanted(made, feed):
    session = onnxruntime.InferenceSession(made.SerializeToString(),
                                           providers=["CPUExecutionProvider"])
    return session.run(["y"], feed)[0]


def on(profile, made, feed):
    """Names of the layers, and the result."""
    settings = Settings.from_options({"require_full_compilation": True, "optimization_level": 0})
    imported = files.imported(made, {"inputs": {}, "constants": {}})
    compiler = settings.compiler_json()
    plan = C.plan(imported.graph, compiler, profile, whole=True)
    assert not plan.refusals
    engine = tv.Engine(C.build(plan))
    weights = files.weights_of(imported, settings)
    engine.set_weights({w["name"]: weights[w["name"]] for w in engine.info()["weights"]})
    got = engine.run({name: torch.from_numpy(value) for name, value in feed.items()})
    return [layer["tactic"] for layer in engine.info()["layers"]], got["y"].numpy()


@turns(4)
@pytest.mark.parametrize("name", CASES)
def test_pieces(name, gpu):
    p = Pieces()
    made = p.model(CASES[name](p))
    onnx.checker.check_model(made)
    feed = random(p)
    want = wanted(made, feed)
    assert numpy.isnan(want).any() == (name == "hidden row")
    numpy.testing.assert_allclose(tv.onnx.compile(made, optimization_level=0)(**feed), want,
                                  rtol=1e-5, atol=1e-5)
    layers, got = on(gpu, made, feed)
    numpy.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    assert [t for t in layers if t.startswith("attention")] == ([] if name in PIECES else layers)
    assert len(layers) == 1 or name in PIECES


def test_a_query_that_is_not_a_number(gpu):
    """Its row is zeros where the file says so, and else not a number."""
    for finished, row in ((finish, numpy.nan), (finish_numbers, 0.0)):
        p = Pieces()
        made = p.model(finished(p, divided(p)))
        feed = random(p)
        feed["q"][1, 2, 3, 4] = numpy.nan
        want = wanted(made, feed)
        layers, got = on(gpu, made, feed)
        assert len(layers) == 1
        numpy.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
        numpy.testing.assert_array_equal(got[1, 2, 3], numpy.full(D, row, "float32"))


@turns(3)
@pytest.mark.parametrize("keys, values, whole", [
    ((B, 1), (B, 1), True), ((1, 1), (1, 1), True), ((1, H), (B, H), True),
    ((B, 1), (B, H), False), ((B, H), (B, 1), False)])
def test_keys_that_heads_or_batches_share(keys, values, whole, gpu):
    p = Pieces()
    p.inputs |= {"k": (*keys, N, D), "v": (*values, N, D)}
    made = p.model(finish(p, divided(p)))
    feed = random(p)
    want = wanted(made, feed)
    layers, got = on(gpu, made, feed)
    assert (len(layers) == 1) == whole
    numpy.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    numpy.testing.assert_allclose(tv.onnx.compile(made, optimization_level=0)(**feed), want,
                                  rtol=1e-5, atol=1e-5)


def test_a_mask_of_other_values_is_another_network():
    """What engines are built around cannot be refitted; a mask of numbers can."""
    def masked(mask):
        p = Pieces()
        return p, p.model(finish(p, p.op("Add", divided(p), p.const(mask))))

    p, made = masked(causal())
    session = tv.onnx.compile(made, optimization_level=0)
    with pytest.raises(ValueError, match="another network"):
        session.refit(masked(numpy.zeros((M, N), "float32"))[1])
    _, made = masked(hidden_row()[:1])
    _, other = masked(hidden_row()[1:] * 2)
    session = tv.onnx.compile(made, optimization_level=0)
    session.refit(other)
    feed = random(p)
    numpy.testing.assert_allclose(session(**feed), wanted(other, feed), rtol=1e-5, atol=1e-5)
