"""Which results share memory, with each other and with arguments: where eager mode says so, and
nowhere else (docs/design/0016-contract-of-a-call.md)."""

import warnings

import pytest
import torch

import torch_vulkan as tv

from helpers import flat, vulkan
from marks import turns

MODES = {"no_grad": torch.no_grad, "grad": torch.enable_grad, "inference": torch.inference_mode}


def after(function):
    """What the function makes of a tensor that the program computes."""
    return lambda x: function(x * 2 + 1)


def inplace(y):
    v = y.view(-1)
    y[0].zero_()
    v.add_(1)
    return y, v, y[1:]


def swapped(y):
    y.t_()
    return y, y[1]


def split_rows(y):
    a, b, c = y.split([1, 1, 4])
    return c, a, b.add(1)


def laid_out(x):
    out = torch.empty_strided((6, 4), (8, 2))
    out.copy_(x + 1)
    return out, out[1:], out.view(-1) if out.is_contiguous() else out.t()


def laid_out_and_written(x):
    out = torch.empty_strided((6, 4), (1, 8)).copy_(x + 1)
    out.t()[1].sin_()
    out[1:3].zero_()
    return out[1:2], out.t()


# Of one tensor of 6 by 4.
PROGRAMS = {
    "view": after(lambda y: (y, y.view(-1))),
    "view_alone": after(lambda y: y.view(-1)),
    "same_twice": after(lambda y: (y, y)),
    "transposed": after(lambda y: (y.t(), y)),
    "views_of_what_is_not_returned": after(lambda y: (y.t(), y.view(3, 8), y[None])),
    "sliced": after(lambda y: (y[1:3], y[2:], y[:, 1])),
    "sliced_alone": after(lambda y: y[1:3]),
    "expanded": after(lambda y: (y[:1].expand(6, 4), y)),
    "as_strided": after(lambda y: (y.as_strided((2, 3), (1, 2), 3), y)),
    "chunks": after(lambda y: y.chunk(2)),
    "split": after(split_rows),
    "unbound": after(lambda y: y.unbind(1)),
    "unfolded": after(lambda y: (y.unfold(0, 3, 2), y)),
    "diagonal": after(lambda y: (y.diagonal(1), y.diagonal(-1))),
    "other_type": after(lambda y: (y, y.view(torch.int32), y.view(torch.int16))),
    "real_and_imaginary": lambda x: (lambda z: (z.real, z.imag))(torch.complex(x + 1, x)),
    "complex": lambda x: (lambda z: (torch.view_as_real(z), z))(torch.complex(x + 1, x)),
    "conjugated": lambda x: torch.complex(x + 1, x).conj(),
    "detached": after(lambda y: (y, y.detach())),
    "chain": after(lambda y: (y.view(2, 12)[1].view(3, 4).t(), y.permute(1, 0)[None, 1:])),
    "in_place": after(inplace),
    "in_place_view": after(swapped),
    "squeezed": after(lambda y: (y[:, None].squeeze(1), y.unflatten(0, (2, 3)).flatten(0, 1))),
    "reshaped": after(lambda y: (y, y.reshape(-1), y.t().reshape(-1))),
    "contiguous": after(lambda y: (y, y.contiguous(), y.t().contiguous())),
    "clone": lambda x: (x.clone(), x.clone(), x.contiguous()),
    "computed_twice": lambda x: (x + 1, x + 1),
    "cast_to_its_own_type": after(lambda y: (y.float(), y.to(torch.float32, copy=True), y)),
    "laid_out": laid_out,
    "laid_out_and_written": laid_out_and_written,
    "argument": lambda x: (x, x.view(-1), x[1:], x + 1),
    "argument_written": lambda x: (x.mul_(2), x.t(), x.sum()),
    "view_of_argument_written": lambda x: (x[1:].zero_(), x[:, 0]),
    "two_bases": lambda x: (lambda y, z: (y[1:], z.t(), z, y))(x + 1, x * 2),
    "of_a_native_part": lambda x: (lambda y: (y.t(), y[1:]))(torch.linalg.inv(
        x[:4] @ x[:4].t() + torch.eye(4)).exp()),
    "constant": lambda x: (torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])[1:], x + 1),
}
# Where gradients are asked for, AOTAutograd hides from autograd that the views of one operator are
# views: they share memory, and each has a version of its own.
SPLIT = ("chunks", "split", "unbound")
IN_EVERY_MODE = ("view", "chunks", "in_place", "constant", "argument_written")


def argument(mode):
    x = torch.arange(24.0).reshape(6, 4)
    return x.requires_grad_() * 1 if mode == "grad" else x  # a leaf cannot be written to


def results_of(function, arguments):
    return [*flat(function(*arguments)), *arguments]


def facts(tensor):
    return [tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.dtype, tensor.is_conj(),
            tensor.untyped_storage().nbytes(), tensor.is_inference(), tensor.requires_grad]


def write(tensors, i, versioned):
    """Who changes, and whose version does, when the tensor `i` is written to."""
    before = [t.detach().clone() for t in tensors]
    versions = [_version(t) for t in tensors]
    with torch.inference_mode() if tensors[i].is_inference() else torch.no_grad():
        try:
            tensors[i].copy_(tensors[i] + 1)
        except RuntimeError:  # elements that lie on each other
            return "refused"
    return [(not torch.equal(a, b), versioned and _version(a) - version)
            for a, b, version in zip(tensors, before, versions, strict=True)]


def _version(tensor):
    return 0 if tensor.is_inference() else tensor._version


def compare(function, arguments, mode, dynamic, versions=True):
    """Eager and compiled agree in values and facts, and in who sees a write into whom; `versions`:
    in whose version it counts, too."""
    fast = vulkan(function, dynamic)
    count = 1
    for i in range(100):
        outcomes = []
        for run in (function, fast):
            with MODES[mode]():
                tensors = results_of(run, arguments(mode))
            told = [[*facts(t), t.detach().clone()] for t in tensors]
            same = [[a is b for a in tensors] for b in tensors]
            outcomes.append((told, same, write(tensors, i, versions)))
            count = len(tensors)
        (want, *want_writes), (got, *got_writes) = outcomes
        for a, b in zip(got, want, strict=True):
            assert a[:-1] == b[:-1]
            torch.testing.assert_close(a[-1], b[-1])
        assert got_writes == want_writes
        if i + 1 == count:
            return


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("mode, name", [
    pytest.param(mode, name, id=f"{mode}-{name}", marks=[] if mode == "no_grad" or
                 name in IN_EVERY_MODE else pytest.mark.slow)
    for mode in MODES for name in PROGRAMS])
def test_results(mode, name, dynamic):
    compare(PROGRAMS[name], lambda mode: [argument(mode)], mode, dynamic,
            versions=mode != "grad" or name not in SPLIT)


def overlapping():
    """Pairs of tensors that share memory, or may seem to, and what else shows it."""
    def pairs():
        base = torch.arange(16.0)
        square = torch.arange(16.0).view(4, 4)
        return {
            "same_at_an_offset": (base[1:], base[1:], base),
            "one_tensor_twice": (base, base),
            "all_and_a_part": (base, base[3:]),
            "shifted": (base[1:-1], base[2:], base),
            "strided": (base[2:8:2], base[2:8], base),
            "two_shapes": (base[2:12].view(2, 5), base[1:11].view(5, 2).t(), base),
            "transposed": (square, square.t()),
            "disjoint": (base[5:], base[:5], base),
            "a_view_of_what_is_not_passed": (base[1:12:2], torch.arange(3.0), base),
            "detached": (base[1:].detach(), base[1:].detach(), base),
            "of_two_types": (base, base.view(torch.int32)[4:]),
        }
    return pairs


def both_written(x, y):
    x.add_(1)
    y.add_(1)
    return x, y


def views_returned(x, y):
    x.mul_(2)
    return y[1:], x.view(-1), x[0]


def view_written(x, y):
    y[1:].zero_()
    return x * 2, y.t() if y.dim() > 1 else y[1:]


def none_written(x, y):
    return x.sum() + y.sum(), y[1:]


def slice_of_written(x, y):
    x.mul_(2)
    return x[1:], x[:2]


FUNCTIONS = (slice_of_written, both_written, views_returned, view_written, none_written)


@turns(4, each=("dynamic",))
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("mode, kind", [
    pytest.param(mode, kind, id=f"{mode}-{kind}", marks=[] if mode == "no_grad" else
                 pytest.mark.slow)
    for mode in ("no_grad", "inference") for kind in overlapping()()])
def test_arguments(mode, kind, dynamic):
    for function in FUNCTIONS:
        torch._dynamo.reset()  # each starts with no assumptions about sizes

        def call(x, y, *others, function=function):
            return function(x, y)

        compare(call, lambda _: overlapping()()[kind], mode, dynamic, versions=False)


GIVEN = "another's memory; the graph runs natively"


def test_data_of_a_tensor_is_set():
    def replaced(x, y):
        x.data = y * 2
        return x + 1

    for mode in MODES:
        torch._dynamo.reset()
        y = torch.arange(3.0)
        with MODES[mode](), pytest.warns(UserWarning, match=GIVEN):
            x, other = torch.zeros(3), torch.zeros(3)
            torch.testing.assert_close(vulkan(replaced)(x, y), replaced(other, y))
            torch.testing.assert_close(x, other)


def test_data_of_a_tensor_are_those_of_an_arguments_view():
    def turned(x, y):
        x.data = y.t()
        return x * 2

    x, y = torch.zeros(2, 3), torch.arange(6.0).view(3, 2)
    with pytest.warns(UserWarning, match=GIVEN):
        torch.testing.assert_close(vulkan(turned)(x, y), y.t() * 2)
    y.fill_(7)
    torch.testing.assert_close(x, y.t())


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_fake_arguments_give_fake_results(dynamic):
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    def work(x):
        y = torch.relu(x * 2 + 1)
        return y.t(), y

    fast, layer = vulkan(work, dynamic), vulkan(torch.nn.Linear(4, 3))
    with torch.no_grad():
        for _ in range(3):  # the third call hands the weights over as one object
            fast(torch.ones(6, 4)), layer(torch.ones(6, 4))
        with FakeTensorMode(allow_non_fake_inputs=True) as mode, warnings.catch_warnings():
            warnings.simplefilter("error")
            x = mode.from_tensor(torch.ones(6, 4))
            for _ in range(4):  # PyTorch remembers results, by its arguments
                view, whole = fast(x)
                assert isinstance(view, FakeTensor) and view.shape == (4, 6)
                assert view.stride() == (1, 4)
                assert view.untyped_storage()._cdata == whole.untyped_storage()._cdata
                assert layer(x).shape == (6, 3)
        (again, _) = fast(torch.ones(6, 4))
    torch.testing.assert_close(again, torch.full((4, 6), 3.0))


class Counter(torch.nn.Module):
    """Gives away what it keeps, and writes to what it is given."""

    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.arange(6.0).view(2, 3))

    def forward(self, x):
        copied = x.narrow(0, 0, 2).narrow(1, 0, 3) * 3
        self.state.copy_(copied)
        x.mul_(2)
        y = x + 1
        return self.state, self.state.t(), copied, x, x[1:], y.t(), y[0]


def compare_programs(program, module):
    count = 1
    for i in range(100):
        outcomes = []
        for run in (module, program):
            x = argument("no_grad")
            with torch.no_grad():
                tensors = [*flat(run(x)), x, *run.buffers()]
            values = [t.clone() for t in tensors]
            outcomes.append(([*map(facts, tensors)], values, write(tensors, i, False)))
            count = len(tensors)
        want, got = outcomes
        assert got[0] == want[0] and got[2] == want[2]
        torch.testing.assert_close(got[1], want[1])
        if i + 1 == count:
            return


@pytest.mark.parametrize("form", ["compiled", "pt2", "torchscript"])
def test_programs(form, tmp_path):
    """Ahead of time, in memory and in files: as eager mode, buffers and arguments included."""
    size = tv.Input(min_shape=(2, 4), opt_shape=(6, 4), max_shape=(20, 4))
    program = tv.compile(Counter(), [size], min_block_size=1)
    if form == "pt2":
        tv.save(program, tmp_path / "program.pt2")
        program = tv.load(tmp_path / "program.pt2")
    if form == "torchscript":
        tv.save(program, tmp_path / "program.pt", output_format="torchscript")
        program = torch.jit.load(tmp_path / "program.pt")
    compare_programs(program, Counter())


class Scripted(torch.nn.Module):
    def forward(self, x):
        y = torch.relu(x * 2 + 1)
        a, b = torch.relu(x - 5).chunk(2)
        x.mul_(2)
        return y, y.view(-1), y.t(), y[1:3], b, a, x, x[1:], y.detach()


@pytest.mark.parametrize("script", [True, False], ids=["scripted", "traced"])
def test_torchscript(script):
    x = argument("no_grad")
    module = torch.jit.script(Scripted()) if script else torch.jit.trace(
        Scripted(), x.clone(), check_trace=False)
    program = tv.compile(module, [x.clone()], min_block_size=1)
    assert tv.engines(program)
    compare_programs(program, Scripted())


DETACHED = {
    "argument": lambda x: x.detach(),
    "beside a view": lambda x: (x.view(-1), x.detach()),
    "of a view": lambda x: x.view(-1).detach(),
    "of a transposed argument": lambda x: x.t().detach(),
}


@pytest.mark.parametrize("name", DETACHED)
def test_what_is_detached_is_no_view(name):
    """So that it can be given other data, and be traced behind that."""
    x = torch.randn(3, 5)
    got, want = (flat(f(x)) for f in (vulkan(DETACHED[name]), DETACHED[name]))
    for ours, theirs in zip(got, want, strict=True):
        assert ours._is_view() == theirs._is_view()
        assert ours.data_ptr() == x.data_ptr()
