"""A compiled optimizer's step, and operators on lists of tensors: in engines, as in eager mode."""

import copy

import pytest
import torch
from torch import nn
from torch.optim import sgd

from torch_vulkan import compilations
from torch_vulkan._torch.compat import TORCH

from helpers import assert_same, vulkan

aten = torch.ops.aten
OPTIMIZERS = {
    "Adam": {}, "AdamW": {"amsgrad": True}, "SGD": {"momentum": 0.9, "nesterov": True},
    "RMSprop": {"centered": True, "momentum": 0.1}, "Adagrad": {}, "Adadelta": {}, "NAdam": {},
    "Adamax": {}, "Rprop": {}}


def compiled_by_torch(name):
    """Skips what Dynamo leaves out of graphs."""
    if "dagrad" in name and TORCH < (2, 13):
        pytest.skip("Dynamo of PyTorch 2.11 takes torch._fused_adagrad_ for an unknown builtin")


def all_in_engines():
    records = compilations.compilations()
    assert records and all(r.covered_nodes == r.compute_nodes for r in records), [
        r.native for r in records]


@pytest.mark.parametrize("foreach", [True, False])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_compiled_step(name, foreach):
    model = nn.Sequential(nn.Linear(7, 5), nn.Linear(5, 3))
    twin = copy.deepcopy(model)
    mine, theirs = (getattr(torch.optim, name)(m.parameters(), lr=0.01, foreach=foreach,
                                               **OPTIMIZERS[name]) for m in (model, twin))
    for parameter, other in zip(model.parameters(), twin.parameters(), strict=True):
        parameter.grad = torch.randn_like(parameter)
        other.grad = parameter.grad.clone()
    step = vulkan(mine.step)
    for _ in range(3):
        step()
        theirs.step()
    for parameter, other in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(parameter, other, rtol=1e-4, atol=1e-5)
    all_in_engines()


FUSED = {
    "Adam": {"weight_decay": 0.1}, "AdamW": {"amsgrad": True, "maximize": True},
    "Adagrad": {"lr_decay": 0.1, "weight_decay": 0.1},
    "SGD": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}}


@pytest.mark.parametrize("rate", [0.01, torch.tensor(0.01)], ids=["number", "tensor"])
@pytest.mark.parametrize("name", FUSED)
def test_a_fused_step(name, rate):
    """Many steps, whose counts make large powers."""
    compiled_by_torch(name)
    model = nn.Sequential(nn.Linear(7, 5), nn.Linear(5, 3))
    twin = copy.deepcopy(model)
    mine, theirs = (getattr(torch.optim, name)(m.parameters(), lr=rate, fused=True, **FUSED[name])
                    for m in (model, twin))
    step = vulkan(mine.step)
    for parameter in [*model.parameters(), *twin.parameters()]:
        parameter.grad = torch.empty_like(parameter)
    for call in range(6):
        for parameter, other in zip(model.parameters(), twin.parameters(), strict=True):
            other.grad.copy_(parameter.grad.normal_())
        step()
        theirs.step()
        states = [[optimizer.state[p] for p in optimizer.param_groups[0]["params"]]
                  for optimizer in (mine, theirs)]
        if call == 3:
            for state in [*states[0], *states[1]]:
                if "step" in state:
                    state["step"].fill_(1000)
        torch.testing.assert_close(states[0], states[1], rtol=1e-5, atol=1e-6)
        assert_same([*model.parameters()], [*twin.parameters()])
        assert_same([p.grad for p in model.parameters()], [p.grad for p in twin.parameters()])
    all_in_engines()
    assert len(compilations.compilations()) <= 3, "no step is compiled again and again"


def test_a_fused_step_in_a_full_graph():
    """Its compilation begins in another function of Dynamo's, which is watched, too."""
    def step(parameters, grads, momenta):
        sgd._fused_sgd(parameters, grads, momenta, None, None, weight_decay=0.1, momentum=0.9,
                       lr=0.01, dampening=0.1, nesterov=False, maximize=False,
                       has_sparse_grad=False)

    compiled = torch.compile(step, backend="vulkan", fullgraph=True, options={"min_block_size": 1})
    given = [[torch.randn(5, 3), torch.randn(5)] for _ in range(3)]
    mine, theirs = copy.deepcopy(given), copy.deepcopy(given)
    compiled(*mine)
    step(*theirs)
    torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
    all_in_engines()


def test_other_backends_leave_fused_steps_as_they_are():
    graphs, model = [], nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    vulkan(optimizer.step)()
    torch._dynamo.reset()

    def collect(module, _):
        graphs.append(module)
        return module.forward

    torch.compile(optimizer.step, backend=collect)()
    assert not any("_fused_adam" in str(module.graph) for module in graphs)


STATE = {"_fused_adam_": 3, "_fused_adamw_": 3, "_fused_adagrad_": 1, "_fused_sgd_": 1}
BOTH = {"weight_decay": 0.1, "maximize": False}
NUMBERS = {"_fused_adam_": BOTH | {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "amsgrad": True},
           "_fused_adagrad_": BOTH | {"lr_decay": 0.1, "eps": 1e-8},
           "_fused_sgd_": BOTH | {"momentum": 0.9, "dampening": 0.1, "nesterov": False,
                                  "is_first_step": False}}
NUMBERS["_fused_adamw_"] = NUMBERS["_fused_adam_"]


@pytest.mark.parametrize("found", [None, 0.0, 1.0])
@pytest.mark.parametrize("name, dtype", [
    (name, dtype) for name in STATE
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16)
    if name != "_fused_sgd_" or dtype.itemsize > 2])
def test_fused_steps_of_scaled_gradients(name, dtype, found):
    """As torch.amp.GradScaler has them: gradients are left unscaled, and infinite ones skip all.
    Of 16 bits the sums are float32's; PyTorch's kernels round some coefficients to 16 bits, too,
    and its SGD for the CPU reads what is no momentum (2.13)."""
    compiled_by_torch(name)
    def made(shape, positive=False):
        value = torch.randn(shape).to(dtype)
        return value.abs() if positive else value

    lists = [[made((5, n)) for n in (3, 4, 40)] for _ in range(2)]
    lists += [[made((5, n), positive=i > 0) for n in (3, 4, 40)] for i in range(STATE[name])]
    if name != "_fused_sgd_":
        lists.append([torch.tensor(float(n)) for n in (1, 7, 900)])

    def step(*lists, scale, found):
        getattr(torch, name)(*lists, lr=0.01, grad_scale=scale, found_inf=found, **NUMBERS[name])

    mine, theirs = copy.deepcopy(lists), copy.deepcopy(lists)
    if dtype.itemsize == 2:
        theirs = [[tensor.float() for tensor in tensors] for tensors in theirs]
    flags = {"scale": torch.tensor(4.0), "found": None if found is None else torch.tensor(found)}
    step(*theirs, **flags)
    vulkan(step)(*mine, **flags)
    assert_same(mine, [[theirs.to(own.dtype) for own, theirs in zip(*both, strict=True)]
                       for both in zip(mine, theirs, strict=True)])
    if dtype != torch.float64:
        all_in_engines()


def test_fused_steps_that_are_left_to_pytorch():
    """Where the tensors of a step differ in how they lie."""
    lists = [[torch.randn(4, 4)], [torch.randn(4, 4).t()], [torch.rand(4, 4)]]
    mine, theirs = copy.deepcopy(lists), copy.deepcopy(lists)

    def step(params, grads, moments):
        torch._fused_sgd_(params, grads, moments, lr=0.01, **NUMBERS["_fused_sgd_"])

    step(*theirs)
    vulkan(step)(*mine)
    assert_same(mine, theirs)


def test_clipped_gradients():
    parameters = [nn.Parameter(torch.randn(3, n)) for n in (2, 5, 7)]
    gradients = [torch.randn_like(p) * 10 for p in parameters]

    def clipped(call):
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient.clone()
        return call(), [p.grad for p in parameters]

    def clip():
        return nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)

    got, want = clipped(vulkan(clip)), clipped(clip)
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)
    all_in_engines()


A, B, C = ([torch.rand(n, 3) + 0.5 for n in (2, 5)] for _ in range(3))
LISTS = {
    "add": lambda: torch._foreach_add(A, B, alpha=3),
    "add of a number": lambda: torch._foreach_add(A, 2.5),
    "sub of numbers": lambda: torch._foreach_sub(A, [1.0, 2.0]),
    "mul by a tensor": lambda: torch._foreach_mul(A, B[0][0, 0]),
    "div": lambda: torch._foreach_div(A, B),
    "addcmul": lambda: torch._foreach_addcmul(A, B, C, value=0.5),
    "addcmul of numbers": lambda: torch._foreach_addcmul(A, B, C, [0.5, 2.0]),
    "addcdiv": lambda: torch._foreach_addcdiv(A, B, C, value=0.5),
    "lerp": lambda: torch._foreach_lerp(A, B, 0.25),
    "lerp of lists": lambda: torch._foreach_lerp(A, B, C),
    "sqrt": lambda: torch._foreach_sqrt(A),
    "neg": lambda: torch._foreach_neg(A),
    "reciprocal": lambda: torch._foreach_reciprocal(A),
    "pow of a number": lambda: torch._foreach_pow(0.9, A),
    "maximum of a number": lambda: torch._foreach_maximum(A, 0.75),
    "minimum": lambda: torch._foreach_minimum(A, B),
    "clamp_min": lambda: torch._foreach_clamp_min(A, 0.75),
    "norm": lambda: torch._foreach_norm(A),
    "norm of another order": lambda: torch._foreach_norm(A, float("inf")),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists(name):
    assert_same(list(vulkan(LISTS[name])()), list(LISTS[name]()))
    all_in_engines()
