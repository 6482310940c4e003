"""What callers hand to an engine and get back: layouts, addresses, dtypes, shapes."""

import pytest
import torch

from helpers import assert_same, check, engines, vulkan


def affine(x):
    return torch.relu(x) * 2 + 1


def layouts():
    base = torch.randn(7, 11, 5)
    image = torch.randn(2, 3, 5, 7)
    return {
        "contiguous": base,
        "transposed": base.transpose(0, 2),
        "sliced": base[1:6:2, ::3],
        "offset": base[1:],
        "misaligned": torch.randn(78)[1:],
        "expanded": torch.randn(7, 1, 5).expand(7, 11, 5),
        "channels_last": image.contiguous(memory_format=torch.channels_last),
        "scalar": torch.tensor(-1.5),
        "empty": torch.randn(3, 0, 5),
        "no_dims_empty": torch.randn(0),
        "one": torch.randn(1, 1, 1),
        "special": torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 1e38, 1e-38]),
    }


@pytest.mark.parametrize("name", layouts())
def test_layouts(name):
    records = check(affine, layouts()[name])
    assert engines(records) == 1


def test_same_tensor_twice():
    x = torch.randn(5, 7)
    fast = vulkan(lambda a, b: a * 2 + b)
    assert_same(fast(x, x), x * 2 + x)


def test_views_of_one_tensor():
    x = torch.randn(6, 6)
    check(lambda a: torch.relu(a[1:]) + a[:-1], x)
    fast = vulkan(lambda a, b: torch.relu(a) - b)
    assert_same(fast(x[0], x[1]), torch.relu(x[0]) - x[1])


def test_negated_and_conjugated_views():
    z = torch.randn(8, dtype=torch.complex64)
    imaginary = z.conj().imag
    assert imaginary.is_neg()
    fast = vulkan(affine)
    with torch.no_grad():
        assert_same(fast(imaginary), affine(imaginary))


def negated(n=8):
    x = torch.randn(n, dtype=torch.complex64).conj().imag
    assert x.is_neg()
    return x


@pytest.mark.parametrize("write", [
    lambda x: x.mul_(2), lambda x: x.zero_(), lambda x: x[1:4].fill_(3), lambda x: x.add_(1),
    lambda x: x.index_put_((torch.tensor([2, 5]),), x[:2] * 3),
    lambda x: x.copy_(torch.arange(8.))])
def test_writes_into_a_negated_view(write):
    x = negated()
    want = x.clone()
    write(want)
    vulkan(write)(x)
    torch.testing.assert_close(x.resolve_neg(), want)


CONJUGATED = {
    "alone": lambda x: x.conj(),
    "beside": lambda x: (x.conj(), x * 2),
    "imaginary": lambda x: (x.conj().imag, x * 2),
    "part": lambda x: (x.conj()[1:], x + 1),
    "adjoint": lambda x: (x.view(2, 4).mH, x + 1),
    "twice": lambda x: (x.conj().conj(), x + 1),
}


@pytest.mark.parametrize("given", ["plain", "conjugated", "gradients"])
@pytest.mark.parametrize("name", CONJUGATED)
def test_conjugated_views_of_arguments(name, given):
    function = CONJUGATED[name]
    x = torch.randn(8, dtype=torch.complex64, requires_grad=given == "gradients")
    x = x.conj() if given == "conjugated" else x
    got, want = vulkan(function)(x), function(x)
    pairs = list(zip(got, want, strict=True)) if isinstance(want, tuple) else [(got, want)]
    for mine, eager in pairs:
        torch.testing.assert_close(mine.resolve_conj(), eager.resolve_conj())
        assert mine.is_conj() == eager.is_conj() and mine.is_neg() == eager.is_neg()
    if given == "gradients":
        weights = [torch.randn_like(eager) for _, eager in pairs]
        grads = [torch.autograd.grad(
            sum((y * w).sum().real for y, w in zip(ys, weights, strict=True)), x)[0]
            for ys in zip(*pairs, strict=True)]
        torch.testing.assert_close(*grads)


def test_conjugated_views_across_a_graph_break():
    def function(x):
        y = x.conj()
        torch._dynamo.graph_break()
        return y * 2

    x = torch.randn(8, dtype=torch.complex64)
    torch.testing.assert_close(vulkan(function)(x), function(x))


@pytest.mark.parametrize("several", [
    lambda y: (y, y.mH), lambda y: (y, y.conj(), y.real), lambda y: (y, y.conj().imag)])
def test_conjugated_views_of_results_with_gradients(several):
    def function(x):
        return several(x * 2)

    x = torch.randn(3, 3, dtype=torch.complex64, requires_grad=True)
    got, want = vulkan(function)(x), function(x)
    for mine, eager in zip(got, want, strict=True):
        torch.testing.assert_close(mine.resolve_conj(), eager.resolve_conj())
    grads = [torch.autograd.grad(sum((y * (2 + 1j)).sum().real for y in ys), x)[0]
             for ys in (got, want)]
    torch.testing.assert_close(*grads)


def test_memory_that_is_not_set_is_filled_where_pytorch_fills_it():
    torch.use_deterministic_algorithms(True)
    try:
        assert vulkan(lambda x: torch.empty(4) + x.sum())(torch.ones(2)).isnan().all()
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_backward_graph_inside_of_the_program(dynamic):
    def function(x):
        y = (x.sin() * x).sum()
        y.backward(create_graph=True)
        return x.grad

    fast = torch.compile(function, backend="vulkan", dynamic=dynamic, options={"min_block_size": 1})
    grads = [call(torch.linspace(0, 1, 4).requires_grad_()) for call in (function, fast)]
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32, torch.int64])
def test_dtypes(dtype):
    x = (torch.randn(5, 37) * 10).to(dtype)
    records = check(lambda t: t * 3 + t, x)
    assert engines(records) == 1


def test_output_keeps_channels_last():
    x = torch.randn(2, 8, 5, 7).contiguous(memory_format=torch.channels_last)
    records = check(lambda t: torch.relu(t) + 1, x)
    assert engines(records) == 1


def test_outputs_that_are_views():
    x = torch.randn(6, 10)
    check(lambda t: torch.relu(t).t(), x)
    check(lambda t: torch.relu(t)[:, ::2], x)
    check(lambda t: torch.relu(t)[:, :1].expand(6, 4), x)
    check(lambda t: (torch.relu(t), torch.relu(t).view(-1)), x)


def test_direct_call_checks_its_arguments():
    from torch_vulkan._fx import engine_call

    calls = []
    with engine_call.collected(calls), torch.no_grad():
        vulkan(affine)(torch.randn(4, 8))
    execute, engine = torch.ops.torch_vulkan.execute, calls[0].engine
    with pytest.raises(ValueError, match="dtype of input.*got Double, want float32"):
        execute([torch.randn(4, 8, dtype=torch.float64)], [], engine)
    with pytest.raises(ValueError, match="number of inputs; got 0, want 1"):
        execute([], [], engine)
    with pytest.raises(ValueError, match="got 9.*8|got.*9"):
        execute([torch.randn(4, 9)], [], engine)
    (again,) = execute([torch.randn(4, 8)], [], engine)
    assert again.shape == (4, 8)


def test_dtype_changed_between_calls():
    fast = vulkan(affine)
    with torch.no_grad():
        for dtype in (torch.float32, torch.float16, torch.float64, torch.float32):
            x = torch.randn(4, 5, dtype=dtype)
            assert_same(fast(x), affine(x))


def test_pickle_and_deepcopy_of_an_engine():
    import copy
    import io

    from torch_vulkan._fx import engine_call

    calls = []
    with engine_call.collected(calls), torch.no_grad():
        vulkan(affine)(torch.randn(4, 8))
    x = torch.randn(4, 8)
    file = io.BytesIO()
    torch.save(calls[0].engine, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    for engine in (loaded, copy.deepcopy(calls[0].engine)):
        (got,) = torch.ops.torch_vulkan.execute([x], [], engine)
        assert_same(got, affine(x))


def test_saved_engine_runs_alone(tmp_path):
    import numpy

    import torch_vulkan as tv

    model = torch.nn.Linear(8, 3)
    program = tv.compile(model, [torch.randn(4, 8)], min_block_size=1)
    (engine,) = tv.engines(program)
    engine.set_weights([dict(model.named_parameters())[n] for n in ("weight", "bias")]
                       if engine.info()["weights"][0]["shape"] == [3, 8] else
                       [model.bias, model.weight])
    engine.save(tmp_path / "linear.vke")
    again = tv.Engine.load(tmp_path / "linear.vke")
    x = torch.randn(4, 8)
    name = again.info()["inputs"][0]["name"]
    (got,) = again.run({name: x}).values()
    torch.testing.assert_close(got, model(x).detach())
    (array,) = again.run([x.numpy()]).values()
    assert isinstance(array, numpy.ndarray)
    with pytest.raises(ValueError, match="is missing"):
        again.run({"other": x})
