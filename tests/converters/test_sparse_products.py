"""Products with weights that are 2:4 sparse (`sparse_weights`), on the kernels of GPUs."""

import copy

import pytest
import torch
from torch import nn

import torch_vulkan as tv

from parity import OPTIONS, compare, tactics_taken, tensor

pytestmark = pytest.mark.parametrize("tactics_of", ["gpu"], indirect=True)
SPARSE = {**OPTIONS, "sparse_weights": True, "optimization_level": 0}
LIMIT = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def pruned(weight):
    """The two largest of each four neighbours in a row."""
    fours = weight.unflatten(-1, (-1, 4))
    keep = fours.abs().argsort(dim=-1, descending=True, stable=True)[..., :2]
    return torch.zeros_like(fours).scatter(-1, keep, fours.gather(-1, keep)).flatten(-2)


def linear(n, k, dtype=torch.float32, bias=True, prune=pruned):
    layer = nn.Linear(k, n, bias=bias)
    with torch.no_grad():
        layer.weight.copy_(prune(tensor(n, k, seed=1)))
        if bias:
            layer.bias.copy_(tensor(n, seed=9))
    return layer.to(dtype).requires_grad_(False)


def compiled(module, **settings):
    return torch.compile(module, backend="vulkan", fullgraph=True, options={**SPARSE, **settings})


def check_sparse(module, *cases, kernel="matmul_sparse_"):
    """Against float64, and that every product has read its weight without zeros."""
    fast = compiled(module)
    for x in cases:
        with torch.no_grad(), tactics_taken() as names:
            got = fast(x)
        exact = copy.deepcopy(module).double()(x.double())
        assert got.dtype == x.dtype
        assert (got.double() - exact).abs().max() <= LIMIT[x.dtype] * exact.abs().max()
        assert any(name.startswith(kernel) for name in names), names


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("m", "n", "k", "kernel"), [
    (1, 53, 384, "matmul_sparse_rows"), (1, 43, 1056, "matmul_sparse_rows"),
    (1, 29, 104, "matmul_sparse_tiled"), (1, 1, 8, "matmul_sparse_tiled")])
def test_products(tactics_of, m, n, k, kernel, dtype):
    check_sparse(linear(n, k, dtype), tensor(m, k, dtype=dtype), kernel=kernel)


def test_bias_activation_and_residual_are_one_kernel(tactics_of):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = linear(40, 64)

        def forward(self, x):
            return torch.nn.functional.gelu(self.inner(x)) + x[:, :40]

    module, x = Block(), tensor(1, 64)
    with torch.no_grad(), tactics_taken() as names:
        compare(compiled(module)(x), module(x), 64)
    assert len(names - {"matmul_sparse_pack"}) == 1, names


def test_products_of_one_input_are_one(tactics_of):
    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.value = (linear(24, 64) for _ in range(3))

        def forward(self, x):
            return self.query(x) * self.key(x) + self.value(x)

    module, x = Heads(), tensor(1, 1, 64)
    with torch.no_grad(), tactics_taken() as names:
        compare(compiled(module)(x), module(x), 64)
    assert sum(name.startswith("matmul_sparse") for name in names) == 1, names


@pytest.mark.parametrize(("rows", "sparse"), [(1, True), (2, False), (64, False)])
def test_weights_whose_columns_are_summed(tactics_of, rows, sparse):
    class Product(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(pruned(tensor(29, 96)).t().contiguous())

        def forward(self, x):
            return x @ self.weight

    module, x = Product(), tensor(rows, 96)
    with torch.no_grad(), tactics_taken() as names:
        compare(compiled(module)(x), module(x), 96)
    assert any(name.startswith("matmul_sparse") for name in names) == sparse, names


@pytest.mark.parametrize(("layer", "why"), [
    (lambda: linear(16, 64, prune=lambda w: w), "more than two are not zero"),
    (lambda: linear(16, 20), "rows of 20 elements; want a multiple of 8"),
    (lambda: linear(16, 30, prune=lambda w: w * 0), "rows of 30 elements; want a multiple of 8")])
def test_what_stays_dense_and_why(tactics_of, layer, why):
    module = layer()
    x = tensor(1, module.in_features)
    report = tv.dry_run(module, [x], sparse_weights=True, min_block_size=1)
    outcomes = [weight["outcome"] for engine in report.engines for weight in engine["sparse"]]
    assert len(outcomes) == 1 and outcomes[0].startswith("read dense: ") and why in outcomes[0], outcomes
    with torch.no_grad(), tactics_taken() as names:
        compare(compiled(module)(x), module(x), module.in_features)
    assert not any(name.startswith("matmul_sparse") for name in names)


def test_the_dry_run_names_sparse_weights(tactics_of):
    report = tv.dry_run(linear(16, 64), [tensor(1, 64)], sparse_weights=True, min_block_size=1)
    assert [w["outcome"] for e in report.engines for w in e["sparse"]] == ["read as 2:4 sparse"]
    assert "1 weight read as 2:4 sparse" in str(report)
    assert "sparse" not in str(tv.dry_run(linear(16, 64), [tensor(1, 64)], min_block_size=1))


def test_many_rows_stay_dense_by_rule(tactics_of):
    report = tv.dry_run(linear(16, 64), [tensor(2, 64)], sparse_weights=True, min_block_size=1)
    outcomes = [weight["outcome"] for engine in report.engines for weight in engine["sparse"]]
    assert outcomes == ["read dense: 2 rows are multiplied by it; by rule only one gains"]


@pytest.mark.setting("sparse_weights")
def test_without_the_setting_weights_are_dense(tactics_of):
    module, x = linear(16, 64), tensor(1, 64)
    with torch.no_grad(), tactics_taken() as names:
        compare(compiled(module, sparse_weights=False)(x), module(x), 64)
    assert not any(name.startswith("matmul_sparse") for name in names)


def test_measured_choice_agrees_with_eager(tactics_of):
    module, x = linear(64, 256), tensor(1, 256)
    with torch.no_grad():
        compare(compiled(module, optimization_level=1)(x), module(x), 256)


def test_weights_may_change_within_the_pattern(tactics_of):
    module, x = linear(24, 64), tensor(1, 64)
    fast = compiled(module)
    with torch.no_grad():
        compare(fast(x), module(x), 64)
        module.weight.copy_(pruned(tensor(24, 64, seed=5)))  # another pattern, too
        compare(fast(x), module(x), 64)
        module.weight.zero_()
        compare(fast(x), module(x), 64)


@pytest.mark.filterwarnings("default:torch_vulkan.*natively")
def test_weights_that_break_the_pattern_run_natively(tactics_of):
    module, x = linear(24, 64), tensor(1, 64)
    fast = compiled(module)
    with torch.no_grad():
        fast(x)
        module.weight[7, 12:16] = torch.tensor([1.0, 2.0, 3.0, 0.0])
        with pytest.warns(UserWarning, match=r"sparse_weights.*more than two of four"):
            got = fast(x)
        compare(got, module(x), 64)
        module.weight.copy_(pruned(module.weight))
        compare(fast(x), module(x), 64)


def test_signs_of_zero_denormals_and_what_is_not_finite(tactics_of):
    """A zero with a sign is none that counts; a NaN, an infinity and the smallest number do."""
    module = linear(3, 8, bias=False)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[-0.0, 1, -0.0, 2, 0, 0, 3, -0.0],
                                          [float("inf"), -0.0, 0, 1, 0, 0, 0, 0],
                                          [0, float("nan"), 0, 0, 1e-45, 1, 0, 0]]))
        x = torch.ones(1, 8)
        got = compiled(module)(x)
    assert got[0, 0] == 6 and torch.isposinf(got[0, 1]) and torch.isnan(got[0, 2])


def test_programs_are_saved_loaded_and_refitted(tactics_of, tmp_path):
    module, x = linear(24, 64), tensor(1, 64)
    program = tv.compile(module, inputs=[x], sparse_weights=True, min_block_size=1,
                         optimization_level=0)
    layers = [layer["tactic"] for e in tv.engines(program) for layer in e.info()["layers"]]
    assert any(name.startswith("matmul_sparse") for name in layers), layers
    tv.save(program, tmp_path / "net.pt2", inputs=[x])
    loaded = tv.load(tmp_path / "net.pt2")
    with torch.no_grad():
        compare(loaded(x), module(x), 64)
        other = linear(24, 64)
        other.weight.copy_(pruned(tensor(24, 64, seed=7)))
        tv.refit(loaded, other.state_dict())
        compare(loaded(x), other(x), 64)


def test_a_refit_that_breaks_the_pattern_is_refused(tactics_of, tmp_path):
    module, x = linear(24, 64), tensor(1, 64)
    program = tv.compile(module, inputs=[x], sparse_weights=True, min_block_size=1,
                         optimization_level=0)
    (engine,) = tv.engines(program)
    names = {w["name"] for w in engine.info()["weights"]}
    engine.save(tmp_path / "net.vke")
    loaded = tv.Engine.load(tmp_path / "net.vke")
    state = {name: module.state_dict()[name] for name in names}
    loaded.set_weights(state)
    before = loaded.run([x])
    dense = {name: torch.ones_like(value) for name, value in state.items()}
    with pytest.raises(tv.UnsupportedError, match="more than two of four"):
        loaded.set_weights(dense)
    compare(loaded.run([x]), before)
    with torch.no_grad():
        expected = module(x)
        with pytest.raises(NotImplementedError, match="more than two of four"):
            tv.refit(program, {k: torch.ones_like(v) for k, v in module.state_dict().items()})
        compare(program(x), expected, 64)
