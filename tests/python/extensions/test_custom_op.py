"""tv.custom_op: one declaration gives the eager call, the shape function and the converter."""

import os
import subprocess
import sys

import pytest
import torch

import torch_vulkan as tv
from torch_vulkan import compilations

from helpers import assert_same, check, engines

SCALE = """
void main() {
  uint i = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (i >= y_numel) return;
  y_store(i, x_load(i) * gain + float(shift));
}
"""
scale = tv.custom_op("tests::scale", "(Tensor x, float gain=2.0, int shift=1) -> Tensor y", SCALE,
                     None, lambda x, gain, shift: torch.empty_like(x))

# Row sums and row lengths: two results of other shapes and dtypes, a grid of its own.
ROWS = """
void main() {
  uint row = gl_WorkGroupID.y * LOCAL_X + gl_LocalInvocationID.x;
  if (gl_WorkGroupID.x != 0u || row >= x_size_0) return;
  float sum = 0.0;
  for (uint k = 0u; k < x_size_1; ++k) {
    float v = x_load(row * x_size_1 + k);
    sum += square != 0 ? v * v : v;
  }
  sums_store(row, sum);
  lengths_store(row, int(x_size_1));
}
"""
rows = tv.custom_op(
    "tests::rows", "(Tensor x, bool square) -> (Tensor sums, Tensor lengths)", ROWS,
    lambda x, square: (1, (x.shape[0] + 31) // 32),
    lambda x, square: (x.new_empty(x.shape[0]), x.new_empty(x.shape[0], dtype=torch.int32)),
    local_size=32)

# A gather, whose index has to be an integer for the shader to compile.
PICK = """
void main() {
  uint i = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (i >= out_numel) return;
  int at = int(index_load(i)) & 7;
  out_store(i, x_load(uint(at)));
}
"""
pick = tv.custom_op("tests::pick", "(Tensor x, Tensor index) -> Tensor", PICK, None,
                    lambda x, index: index.shape, dtypes={"index": torch.int32})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(7,), (5, 41), (3, 11, 29), (0, 4), ()])
def test_eager_and_compiled(shape, dtype):
    x = torch.randn(shape).to(dtype)
    want = (x.float() * 3 - 2).to(dtype)
    torch.testing.assert_close(scale(x, 3.0, -2), want)
    records = check(lambda t: scale(t, 3.0, -2), x)
    assert engines(records) == 1 and records[0].coverage == 1


def test_default_arguments():
    x = torch.randn(9)
    torch.testing.assert_close(scale(x), x * 2 + 1)
    check(lambda t: scale(t), x)
    check(lambda t: scale(t, shift=4), x)


def test_several_results_and_a_grid():
    x = torch.randn(37, 5)
    sums, lengths = rows(x, True)
    torch.testing.assert_close(sums, (x * x).sum(1))
    assert lengths.dtype == torch.int32 and (lengths == 5).all()
    check(lambda t: rows(t, False), x)
    check(lambda t: rows(t, True)[0] + 1, x)


def test_dtypes():
    x, index = torch.randn(8), torch.tensor([3, 0, 7], dtype=torch.int32)
    assert_same(pick(x, index), x[index.long()])
    check(lambda a, b: pick(a, b) + 1, x, index)


def test_between_other_operators_and_of_views():
    x = torch.randn(6, 8, 5)
    records = check(lambda t: scale(t.transpose(1, 2)[1:] + 1, 0.5).relu().sum(2), x)
    assert len(records[0].engines) == 1 and records[0].coverage == 1
    check(lambda t: scale(t.expand(4, 3)), torch.randn(3))


def test_dynamic_shapes():
    fast = torch.compile(lambda t: (scale(t.relu()), *rows(t, False)), backend="vulkan",
                         dynamic=True, options={"min_block_size": 1})
    for n in (3, 40, 65):
        x = torch.randn(n, n + 1)
        lengths = torch.full((n,), n + 1, dtype=torch.int32)
        assert_same(fast(x), (x.relu() * 2 + 1, x.sum(1), lengths))
    assert len(compilations.compilations()) == 1


def test_ahead_of_time(tmp_path):
    class Network(torch.nn.Module):
        def forward(self, x):
            return scale(x.sigmoid(), 4.0)

    ranged = tv.Input(min_shape=(1, 8), opt_shape=(4, 8), max_shape=(64, 8))
    program = tv.compile(Network(), [ranged], min_block_size=1)
    assert len(tv.engines(program)) == 1
    tv.save(program, tmp_path / "net.pt2")
    for n in (1, 30):
        x = torch.randn(n, 8)
        torch.testing.assert_close(tv.load(tmp_path / "net.pt2")(x), x.sigmoid() * 4 + 1)


def test_torch_knows_it():
    torch.library.opcheck(torch.ops.tests.scale.default, (torch.randn(3, 4), 1.5, 2),
                          test_utils=("test_schema", "test_faketensor"))
    assert scale(torch.randn(3, device="meta")).device.type == "meta"
    assert any(op["op"] == "tests::scale" for op in tv.supported_ops())


def test_gradient_of_ones_own():
    cube = tv.custom_op("tests::cube", "(Tensor x) -> Tensor", SCALE.replace(
        "y_store(i, x_load(i) * gain + float(shift))",
        "float v = x_load(i); out_store(i, v * v * v)").replace("y_numel", "out_numel"),
        None, torch.empty_like)
    torch.library.register_autograd(
        "tests::cube", lambda ctx, g: g * 3 * ctx.saved_tensors[0] ** 2,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]))
    x = torch.randn(5, requires_grad=True)
    fast = torch.compile(lambda t: cube(t).sum(), backend="vulkan", options={"min_block_size": 1})
    (grad,) = torch.autograd.grad(fast(x), x)
    torch.testing.assert_close(grad, 3 * x.detach() ** 2)


def test_eager_of_ones_own():
    calls = []

    def eager(x):
        calls.append(x.shape)
        return x + 1

    shader = SCALE.replace("* gain", "").replace("float(shift)", "1.0")
    plus = tv.custom_op("tests::plus", "(Tensor x) -> Tensor y", shader, None, torch.empty_like,
                        eager=eager)
    x = torch.randn(3)
    assert_same(plus(x), x + 1)
    assert len(calls) == 1
    with torch.no_grad():
        assert_same(torch.compile(plus, backend="vulkan", options={"min_block_size": 1})(x), x + 1)
    assert len(calls) == 1, "the engine did not run"


def test_what_an_engine_does_not_take():
    """The reason is the report's; outside of the engine the operator is eager's."""
    total = tv.custom_op(
        "tests::total", "(Tensor x) -> Tensor out",
        "void main() { out_store(0, x_load(x_size_1 - 1u)); }", lambda x: 1,
        lambda x: x.new_empty(()), eager=lambda x: x.sum())
    x = torch.randn(3)
    report = tv.dry_run(lambda t: total(t) + 1, [x], min_block_size=1)
    (row,) = report.data["operators"]
    assert row["reason"] == "its shader reads x_size_1, but 'x' has 1 dimensions"
    records = check(lambda t: total(t) + 1, x)
    assert [n.op for n in records[0].native] == ["tests::total"]
    # In a block that is too small for an engine, the shader runs alone.
    assert engines(check(lambda t: scale(t), x, min_block_size=5)) == 0
    with pytest.raises(ValueError, match="x_size_1"):
        rows(torch.randn(3), True)


BAD = """// a comment
void main() {
  uint i = tv_group();
  out_store(i, x_load(i) * gian);
}
"""


def test_a_bad_shader_is_reported_with_its_own_lines():
    with pytest.raises(ValueError) as caught:
        tv.custom_op("tests::bad", "(Tensor x, float gain) -> Tensor", BAD, None,
                     lambda x, gain: x.shape)
    message = str(caught.value)
    assert message.startswith("[tests::bad] the shader does not compile")
    assert "line 4: 'gian' : undeclared identifier" in message
    assert "4 |   out_store(i, x_load(i) * gian);" in message
    assert "2 | void main() {" in message and "#line" not in message
    assert not hasattr(torch.ops.tests, "bad")
    # The name is free still, and #extension and #include lines do not move the others.
    longer = "#extension GL_EXT_shader_realtime_clock : enable\n#include \"math.glsl\"\n" + BAD
    with pytest.raises(ValueError, match=r"line 6: 'gian'(.|\n)*6 \|   out_store"):
        tv.custom_op("tests::bad", "(Tensor x, float gain) -> Tensor", longer, None,
                     lambda x, gain: x.shape)
    right = BAD.replace("gian", "gain").replace("  out_store", "  if (i < out_numel) out_store")
    right = right.replace("tv_group()", "tv_group() * LOCAL_X + gl_LocalInvocationID.x")
    good = tv.custom_op("tests::bad", "(Tensor x, float gain) -> Tensor", right, None,
                        lambda x, gain: x.shape)
    assert_same(good(torch.ones(3), 2.0), torch.full((3,), 2.0))


@pytest.mark.parametrize("name,schema,options,message", [
    ("scale", "(Tensor x) -> Tensor", {}, "want one like 'images::grey'"),
    ("tests::scale", "(Tensor x) -> Tensor", {}, "of this name already"),
    ("aten::relu", "(Tensor x) -> Tensor", {}, "of this name already"),
    ("tests::new", "(Tensor x -> Tensor", {}, "is not one"),
    ("tests::new", "(Tensor[] x) -> Tensor", {}, "argument 'x'.*want Tensor, int"),
    ("tests::new", "(Tensor(a!) x) -> Tensor", {}, "none of them changed in place"),
    ("tests::new", "(Tensor x) -> int", {}, "want new Tensors"),
    ("tests::new", "(int n) -> Tensor", {}, "no Tensor among its arguments"),
    ("tests::new", "(Tensor out) -> Tensor", {}, "have one name"),
    ("tests::new", "(Tensor x) -> Tensor", {"local_size": (64, 64)}, "local_size"),
    ("tests::new", "(Tensor x) -> Tensor", {"dtypes": {"z": torch.int32}}, "dtypes"),
])
def test_bad_declarations(name, schema, options, message):
    with pytest.raises(ValueError, match=message):
        tv.custom_op(name, schema, SCALE, None, torch.empty_like, **options)


def test_bad_functions():
    two = tv.custom_op("tests::two", "(Tensor x) -> (Tensor, Tensor)",
                       "void main() { out0_store(0, 1.0); out1_store(0, 1.0); }",
                       lambda x: (1, 1, 1, 1), lambda x: [x.shape])
    with pytest.raises(ValueError, match="gave 1 results, the schema has 2"):
        two(torch.randn(3, device="meta"))
    wide = tv.custom_op("tests::wide", "(Tensor x) -> Tensor", "void main() { out_store(0, 1.0); }",
                        lambda x: (1, 1, 1, 1), torch.empty_like)
    with pytest.raises(ValueError, match="the grid has 4 numbers"):
        wide(torch.randn(3))


PROGRAM = """
import sys, torch, torch_vulkan as tv
shader = '''void main() {
  uint i = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (i < out_numel) out_store(i, x_load(i) * FACTOR);
}'''.replace("FACTOR", sys.argv[1])
op = tv.custom_op("tests::keyed", "(Tensor x) -> Tensor", shader, None, torch.empty_like)
f = torch.compile(lambda t: op(t) + 1, backend="vulkan", options={
    "min_block_size": 1, "engine_cache_dir": sys.argv[2]})
print(f(torch.ones(3)).tolist(), tv.cache.stats()["hit"])
"""


def test_the_cache_tells_shaders_apart(tmp_path):
    def run(factor):
        done = subprocess.run([sys.executable, "-c", PROGRAM, factor, str(tmp_path / "cache")],
                              capture_output=True, text=True, env={**os.environ})
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert run("2.0") == "[3.0, 3.0, 3.0] 0"
    assert run("5.0") == "[6.0, 6.0, 6.0] 0"
    assert run("2.0") == "[3.0, 3.0, 3.0] 1"


FIRST = """
void main() {
  uint i = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  float first = x_load(0u);
  if (i < y_numel) y_store(i, x_numel > 0u ? first : y_numel * 1.0);
}
"""


def test_an_empty_tensor_has_memory():
    """As newer lavapipe may load from it where no invocation asks for that."""
    first = tv.custom_op("tests::first", "(Tensor x, Tensor like) -> Tensor y", FIRST, None,
                         lambda x, like: torch.empty_like(like))
    assert first(torch.empty(0), torch.empty(3)).tolist() == [3, 3, 3]
    assert first(torch.full((2,), 7.0), torch.empty(3)).tolist() == [7, 7, 7]
