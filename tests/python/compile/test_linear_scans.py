"""associative_scan of linear recurrences, as state-space models have them: one operator, one graph
for all lengths from the second one on."""

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan
from torch.autograd import forward_ad

from torch_vulkan import compilations
from torch_vulkan._torch import linear_scans
from torch_vulkan._torch.compat import TORCH

from marks import slow_but

OPTIONS = {"min_block_size": 1}


def compare(got, want, length=1):
    """Of results that are sums of `length` terms."""
    torch.testing.assert_close(got, want, rtol=1e-6 * length ** 0.5 + 1.3e-6,
                               atol=1e-5 + 1e-6 * length ** 0.5, equal_nan=True)


def linear(left, right):
    a_left, b_left = left
    a_right, b_right = right
    return a_left * a_right, a_right * b_left + b_right


def swapped(left, right):
    return right[0] * left[0], right[1] + left[1] * right[0]


def test_tangents_are_eagers():
    """The operator has no forward derivative; what PyTorch runs in its place has one."""
    def function(a, x):
        return associative_scan(linear, (a, x), 1, combine_mode="generic")[1]

    a, x, tangent = (torch.rand(3, 9) for _ in range(3))
    fast = compiled(function)
    compare(fast(a, x), function(a, x), 9)  # built without a level
    with forward_ad.dual_level():
        got, want = (forward_ad.unpack_dual(call(forward_ad.make_dual(a, tangent),
                                                 forward_ad.make_dual(x, tangent)))
                     for call in (fast, function))
    compare(got.primal, want.primal, 9)
    compare(got.tangent, want.tangent, 9)


def test_a_jvp_inside_is_eagers():
    def function(a, x):
        return torch.func.jvp(
            lambda a, x: associative_scan(linear, (a, x), 1, combine_mode="generic")[1], (a, x),
            (x, a))

    a, x = torch.rand(3, 9), torch.rand(3, 9)
    for mine, eager in zip(compiled(function)(a, x), function(a, x), strict=True):
        compare(mine, eager, 9)


@pytest.mark.parametrize("default", [False, True])
def test_the_mode_for_pointwise_functions_is_pytorchs(default):
    """It is refused for tensors on the CPU before torch 2.14, and taken from then on."""
    mode = {} if default else {"combine_mode": "pointwise"}

    def function(a, x):
        return associative_scan(linear, (a, x), 1, **mode)[1]

    a, x = operands(9)
    if TORCH < (2, 14):
        for call in (function, compiled(function)):
            with pytest.raises(Exception, match="pointwise"):
                call(a, x)
        return
    compare(compiled(function)(a, x), scan(a, x)[1], 9)
    (record,) = compilations.compilations()
    assert_in_one_engine(record)


def test_what_pytorch_refuses_is_refused():
    x = torch.rand(3, 9)
    def function(a, x):
        return associative_scan(linear, (a, x), 1, combine_mode="another")[1]

    for call in (function, compiled(function)):
        with pytest.raises(Exception, match="must either 'pointwise' or 'generic'"):
            call(x, x)


def of_later_values(left, right):
    """Not what a recurrence of (factor, x) is: the factor is the earlier one."""
    return left[0] * right[0], left[0] * right[1] + left[1]


def both_sums(left, right):
    return left[0] + right[0], left[1] + right[1]


def scan(factor, x, combine=linear, dim=1, reverse=False):
    return associative_scan(combine, (factor, x), dim, reverse, combine_mode="generic")


def operands(length):
    draw = torch.Generator().manual_seed(length)
    factor, x = torch.randn(2, 3, length, 5, generator=draw)
    return factor.sigmoid(), x


def compiled(function, **options):
    compilations.clear()
    return torch.compile(function, backend="vulkan", fullgraph=True, options=OPTIONS | options)


def assert_in_one_engine(record):
    assert len(record.engines) == 1 and record.coverage == 1, record.native


@pytest.mark.parametrize("combine", slow_but((linear,), (linear, swapped)))
def test_no_third_length_is_compiled(combine):
    fast = compiled(lambda a, x: scan(a, x, combine)[1] * 2)
    for length in (5, 7, 9, 12, 16, 301):
        given = operands(length)
        compare(fast(*given), scan(*given, combine)[1] * 2, length=length)
    records = compilations.compilations()
    assert len(records) == 2
    for record in records:
        assert_in_one_engine(record)
        assert record.engines[0].dispatches == 1


@pytest.mark.parametrize("reverse", slow_but((True,), (False, True)))
@pytest.mark.parametrize("dim", slow_but((-1,), (0, 1, -1)))
def test_dimensions_directions_and_products(dim, reverse):
    def function(a, x):
        return scan(a, x, dim=dim, reverse=reverse)

    given = operands(11)
    compare(compiled(function)(*given), function(*given), length=11)
    (record,) = compilations.compilations()
    assert_in_one_engine(record)


@pytest.mark.parametrize("combine", slow_but((of_later_values,), (of_later_values, both_sums)))
def test_what_is_no_linear_recurrence_is_computed_as_it_is_written(combine):
    given = operands(6)
    compare(compiled(lambda a, x: scan(a, x, combine))(*given), scan(*given, combine), length=6)


def test_a_function_of_more_than_its_arguments_is_not_called_by_us():
    calls = []

    def counting(left, right):
        calls.append(1)
        return linear(left, right)

    given = operands(4)
    want = scan(*given)
    calls.clear()
    assert not linear_scans._is_linear(counting) and not calls
    compare(torch.compile(lambda a, x: scan(a, x, counting), backend="vulkan",
                          options=OPTIONS)(*given), want, length=4)


@pytest.mark.parametrize("factors", [(float("inf"), 0.5, -0.0), (float("nan"), 1.0, 2.0)])
def test_the_first_factor_counts_for_nothing(factors):
    a, x = torch.tensor(factors), torch.tensor([-0.0, 3.0, -2.0])
    got, want = (f(a, x)[1] for f in (compiled(lambda a, x: scan(a, x, dim=0)),
                                      lambda a, x: scan(a, x, dim=0)))
    compare(got, want)
    assert torch.equal(got.signbit(), want.signbit())


def test_gradients_are_pytorchs():
    given = [t.requires_grad_() for t in operands(6)]
    wanted = torch.autograd.grad(scan(*given)[1].square().sum(), given)
    got = torch.autograd.grad(compiled(lambda a, x: scan(a, x)[1])(*given).square().sum(), given)
    compare(got, wanted, length=64)


def test_other_backends_trace_it_as_before():
    targets = []

    def backend(module, inputs):
        targets.extend(node.target for node in module.graph.nodes)
        return module

    given = operands(6)
    compiled(lambda a, x: scan(a, x)[1])(*given)
    torch._dynamo.reset()
    compare(torch.compile(lambda a, x: scan(a, x)[1], backend=backend)(*given), scan(*given)[1])
    assert targets and not any("linear_recurrence" in str(target) for target in targets)


def test_the_operator_alone():
    a, x = operands(9)
    torch.library.opcheck(linear_scans.linear_recurrence, (x, a, 1),
                          test_utils=("test_schema", "test_faketensor"))
    compare(torch.ops.torch_vulkan.linear_recurrence(x, a, 1), scan(a, x)[1], length=9)
