"""Statements of random programs. Each production writes source text from the variables that a Scope
offers; whether it runs is for eager to say."""

from random import Random

import torch

FLOATS = (torch.float32, torch.float32, torch.float32, torch.float16, torch.bfloat16, torch.float64)
INTS = (torch.int64, torch.int64, torch.int32, torch.uint8, torch.int16, torch.int8)
MOST_ELEMENTS = 1 << 17
MOST_PARTS = 64


class Scope:
    """The variables of a program that is being written, with their values in the first call."""

    def __init__(self, rng: Random, values: dict, first: int = 1):
        self.rng, self.values, self._next = rng, values, first

    def one(self, *items):
        return self.rng.choice(items)

    def new(self) -> str:
        self._next += 1
        return f"v{self._next - 1}"

    def names(self, wanted) -> list[str]:
        return [n for n, v in self.values.items() if wanted(v)]

    def pick(self, wanted) -> str:
        """A variable; what was made last is likelier. Raises IndexError where there is none."""
        found = self.names(wanted)
        return found[max(self.rng.randrange(len(found)), self.rng.randrange(len(found)))] if (
            found) else [][0]

    def tensor(self, wanted=lambda t: True) -> str:
        return self.pick(lambda v: isinstance(v, torch.Tensor) and v.numel() <= MOST_ELEMENTS
                         and wanted(v))

    def float(self) -> str:
        return self.tensor(lambda t: t.is_floating_point())

    def whole(self) -> str:
        return self.tensor(lambda t: not t.is_floating_point() and not t.is_complex()
                           and t.dtype != torch.bool)

    def complex(self) -> str:
        return self.tensor(lambda t: t.is_complex())

    def ranked(self, least: int = 1) -> str:
        return self.tensor(lambda t: t.dim() >= least)

    def dim(self, name: str) -> int:
        rank = self.values[name].dim()
        return self.rng.randrange(-rank, rank)

    def like(self, name: str) -> str:
        """A tensor that may broadcast with this one."""
        shape = self.values[name].shape
        def fits(t):
            try:
                return torch.broadcast_shapes(t.shape, shape) == shape
            except RuntimeError:
                return False
        return self.tensor(fits)

    def small(self) -> str:
        """An integer that may be a size, an index or an offset."""
        names = self.names(lambda v: type(v) is int and -8 <= v <= 70000)
        return self.one(str(self.rng.randrange(-2, 4)), *names, *self._sizes())

    def _sizes(self) -> list[str]:
        name = self.one(*self.names(lambda v: isinstance(v, torch.Tensor)))
        t = self.values[name]
        made = [f"{name}.shape[{d}]" for d in range(t.dim())]
        return [*made, *(f"{m} // 2" for m in made[:1]), *(f"({m} - 1)" for m in made[:1])]

    def number(self) -> str:
        """A scalar: literal, argument, or computed of sizes."""
        t = self.one(*self.names(lambda v: isinstance(v, torch.Tensor)))
        names = self.names(lambda v: type(v) in (int, float, bool))
        size = f"{t}.shape[0]" if self.values[t].dim() else f"{t}.numel()"
        name = self.one(*names, "2")
        return self.one(name, name, size, f"{t}.numel()", f"{size} * {size}", "2", "-1", "0.5",
                        f"({name} + {size})", f"({name} * 2)", f"-{name}", "0", "1.25")

    def index(self, name: str) -> str:
        """What goes between brackets: integers, slices, None, an ellipsis."""
        parts, rank = [], self.values[name].dim()
        for _ in range(self.rng.randint(1, max(rank, 1))):
            parts.append(self.one("0", "-1", ":", "1:", ":-1", "::2", "1::2", ":2", "None", "...",
                                  f":{self.small()}", f"{self.small()}:", self.small()))
        while parts.count("...") > 1:
            parts.remove("...")
        return ", ".join(parts)


def view(s: Scope) -> str:
    """A view of a variable."""
    x = s.ranked(s.one(0, 1, 1, 2))
    rank = s.values[x].dim()
    forms = ["view(-1)", "unsqueeze(0)", "unsqueeze(-1)", "squeeze()", "detach()", "view_as({x})",
             "reshape(-1)", "flatten()", "as_strided((2,), (1,))", "as_strided((2, 2), (1, 2), 1)",
             "as_strided(({n},), (1,), {n})", "view({t})", "view({i})", "expand(2, *{x}.shape)",
             "view({x}.numel())", "contiguous()", "as_strided({x}.shape, {x}.stride())",
             "as_strided((3,), (0,), {n})", "view(1, -1)", "expand_as({x})", "data"]
    if rank >= 1:
        d = s.dim(x)
        forms += [f"narrow({d}, {s.small()}, {s.small()})", f"select({d}, {s.small()})",
                  f"unfold({d}, 2, 1)", f"squeeze({d})", f"movedim({d}, 0)", "T",
                  f"narrow({d}, 0, {{x}}.shape[{d}] // 2)",
                  f"unflatten({d}, (-1, 1))", "expand({x}.shape)"] + [
                  f"[{s.index(x)}]" for _ in range(6)]
    if rank >= 2:
        a, b = s.dim(x), s.dim(x)
        forms += [f"transpose({a}, {b})", f"diagonal({s.small()}, {a}, {b})", "mT", "t()",
                  "flatten(0, 1)", "permute({p})", "view({x}.shape[0] * {x}.shape[1], -1)",
                  f"transpose({a}, {b})", "diagonal()", "flatten(1)", "view({x}.shape[1], -1)"]
    form = s.one(*forms)
    types = f"torch.{str(s.one(*FLOATS, *INTS)).removeprefix('torch.')}"
    order = list(range(rank))
    s.rng.shuffle(order)
    form = form.format(x=x, n=s.small(), t=types, i="torch.int32", p=", ".join(map(str, order)))
    return f"{s.new()} = {x}{form}" if form.startswith("[") else f"{s.new()} = {x}.{form}"


def conjugated(s: Scope) -> str:
    """A complex value, or a view that conjugates or negates."""
    if s.rng.random() < 0.5 or not s.names(
            lambda v: isinstance(v, torch.Tensor) and v.is_complex()):
        x = s.float()
        return f"{s.new()} = " + s.one(
            f"torch._neg_view({x})", f"torch.complex({x}.float(), {x}.float() + 1)",
            f"torch.complex({x}.float(), {x}.float()).conj()")
    z = s.complex()
    forms = ["conj()", "conj()", "real", "imag", "conj().imag", "conj().real", "abs()", "mul_(2)",
             "conj().mul_(2)", "imag.add_(1)", "conj().imag.add_(1)", "resolve_conj()",
             "conj() * 2", "conj().conj()", "conj().view(-1)", "conj()[1:]", "sum()", "bool()"]
    if s.rng.random() < 0.2:
        other = s.one(f"{z}.real", f"{z}.imag.neg()", f"{z}.real.bool()")
        form = s.one(f"torch.stack([{z}, {other}], -1)", f"torch.hstack([{other}, {z} + 1])",
                     f"{z} / {other}", f"{other} + {z}")
        return f"{s.new()} = {form}"
    if s.values[z].dim() >= 2:
        forms += ["mH", "adjoint()", "conj().t()"]
    form = s.one(*forms)
    return f"{z}.{form}" if "_(" in form else f"{s.new()} = {z}.{form}"


def split(s: Scope) -> str:
    """Several views of a variable."""
    x = s.ranked()
    d = s.dim(x)
    size = s.values[x].shape[d]
    form = s.one(f"chunk(2, {d})", f"split({s.one(1, 2, 3)}, {d})", f"unbind({d})",
                 f"tensor_split(2, {d})", f"split([1, {x}.shape[{d}] - 1], {d})")
    if size not in range(1, MOST_PARTS) and form.startswith(("unbind", "split(")):
        raise IndexError("no parts, or more than a program has time for")
    if s.rng.random() < 0.3:
        return f"{s.new()} = {x}.{form}[{s.one(0, -1)}]"
    if form.startswith("unbind"):
        return ", ".join(s.new() for _ in range(min(size, 4))) + f" = {x}.{form}"
    return f"{s.new()}, {s.new()} = {x}.{form}"


def _value(s: Scope, x: str) -> str:
    return s.one(s.like(x), s.like(x), s.number())


def in_place(s: Scope) -> str:
    """A change of a variable."""
    x = s.tensor()
    y = s.one(s.like(x), s.like(x), s.number())
    forms = [f"add_({y})", f"mul_({y})", f"sub_({y})", f"copy_({s.like(x)})", f"fill_({y})",
             "zero_()", f"clamp_({s.number()}, {s.number()})", "relu_()", "neg_()", "abs_()",
             "sin_()", f"masked_fill_({x} > 0, {y})", f"add_({y}, alpha={s.number()})", "tanh_()",
             f"clamp_min_({s.number()})", f"lerp_({s.like(x)}, 0.5)", f"div_({s.one('2', '4.0')})",
             "t_()", "unsqueeze_(0)", "squeeze_()", "requires_grad_()", f"addcmul_({x}, {x})",
             "add_(1)", "mul_(2)", f"copy_({s.like(x)})"]
    if s.values[x].dim():
        d = s.dim(x)
        forms += [f"index_fill_({d}, torch.tensor([{s.one('0', '-1')}]), {y})",
                  f"transpose_({d}, 0)",
                  f"index_add_({d}, torch.tensor([0]), {x}.narrow({d}, -1, 1).clone())",
                  f"index_put_((torch.tensor([0, -1]),), {x}[0].clone(), accumulate=True)",
                  f"index_copy_({d}, torch.tensor([0]), {x}.narrow({d}, -1, 1).clone())",
                  f"scatter_({d}, torch.zeros_like({x}, dtype=torch.int64), 1)",
                  f"swap_({d})"]
    form = s.one(*forms)
    if form.startswith("swap_"):
        return f"{x}[0], {x}[-1] = {x}[-1].clone(), {x}[0].clone()"
    if form.startswith("requires_grad_") and s.rng.random() < 0.7:
        form = "add_(1)"
    return f"{x}.{form}"


def assignment(s: Scope) -> str:
    """x[...] = y, x += y, x.data = y, or through a view without a name."""
    x = s.ranked()
    y = _value(s, x)
    i = s.index(x)
    return s.one(f"{x}[{i}] = {s.number()}", f"{x}[{i}] = {x}[{i}] * 2", f"{x}[{i}] += {y}",
                 f"{x}[{x} > 0] = {s.number()}", f"{x} += {y}", f"{x} *= {y}", f"{x}[...] = {y}",
                 f"{x}[1:] = {x}[:-1].clone()", f"{x}.view(-1)[{s.small()}] = 1",
                 f"{x}[{i}].add_({s.number()})", f"{x}.t().mul_({y})", f"{x}.data = {s.like(x)}",
                 f"{x}[{i}].copy_({x}[{s.index(x)}].clone())", f"{x}.view(-1).mul_(2)",
                 f"{x}.transpose(0, -1).add_({y})", f"{x}[torch.tensor([0, -1])] = {s.number()}")


def pointwise(s: Scope) -> str:
    """A value of the same or a broadcast shape."""
    x = s.one(s.tensor(), s.tensor())
    y, n, m = _value(s, x), s.number(), s.number()
    other = s.float() if s.names(lambda v: isinstance(v, torch.Tensor) and v.is_floating_point()) \
        else x
    return f"{s.new()} = " + s.one(
        f"{x} + {y}", f"{x} - {y}", f"{x} * {y}", f"{y} - {x}", f"{x} * {n}", f"{x} + {n}",
        f"{n} - {x}", f"{x} / {s.one('2', '4', '3')}", f"torch.sin({x})", f"torch.relu({x})",
        f"{x}.clamp({n}, {m})", f"{x}.clamp(min={n})", f"F.hardtanh({other}, {n}, {m})",
        f"torch.where({x} > 0, {x}, {y})", f"{x} > {y}", f"{x} <= {n}", f"{x} == {y}",
        f"torch.maximum({x}, {s.like(x)})", f"{x}.abs()", f"-{x}", f"torch.tanh({other})",
        f"{x}.to(torch.{str(s.one(*FLOATS, *INTS)).removeprefix('torch.')})", f"{x}.float()",
        f"torch.add({x}, {s.like(x)}, alpha={n})", f"{x} // {s.one('2', '3', '-2')}",
        f"{x} % {s.one('2', '3', '-3')}", f"{x}.clone()", f"F.threshold({other}, {n}, {m})",
        f"{x}.sign()", f"{x} ** 2", f"F.softplus({other})", f"{x}.masked_fill({x} < 0, {n})",
        f"torch.full_like({x}, {n})", f"torch.zeros_like({x})", f"{x}.new_full({x}.shape, {n})",
        f"torch.sigmoid({other})", f"F.leaky_relu({other}, {n})", f"F.dropout({other}, 0.5)",
        f"torch.lerp({other}, {other} + 1, 0.25)", f"{x}.bool()", f"{x}.exp()", f"{x}.sqrt()",
        f"torch.rand_like({other})", f"torch.addcmul({other}, {other}, {other}, value={n})",
        f"{x} & 3", f"{x} | {s.one('1', '4')}", f"{x} >> {s.one('1', '3', '9')}", f"{x} << 1",
        f"{x}.logical_not()", f"{x}.round()", f"{x}.floor()", f"torch.div({x}, 3)")


def reduction(s: Scope) -> str:
    """Sums, extremes, positions, orders."""
    x = s.ranked()
    d = s.dim(x)
    return f"{s.new()} = " + s.one(
        f"{x}.sum()", f"{x}.sum({d})", f"{x}.sum({d}, keepdim=True)", f"{x}.amax({d})",
        f"{x}.float().mean({d})", f"{x}.argmax({d})", f"{x}.cumsum({d})", f"{x}.any()",
        f"{x}.all({d})", f"F.softmax({x}.float(), {d})", f"{x}.max({d})[0]", f"{x}.min({d})[0]",
        f"{x}.sort({d})[0]", f"{x}.sum() * {s.number()}", f"{x}.float().var({d}, correction=0)",
        f"{x}.float().norm()", f"F.layer_norm({x}.float(), {x}.shape[-1:])", f"{x}.prod({d})",
        f"{x}.count_nonzero({d})", f"{x}.float().logsumexp({d})")


def arrangement(s: Scope) -> str:
    """Elements in other places."""
    x = s.ranked()
    d = s.dim(x)
    y = s.like(x)
    size = s.one(*s._sizes(), "3") if s.values[x].dim() else "3"
    return f"{s.new()} = " + s.one(
        f"torch.cat([{x}, {x}], {d})", f"torch.stack([{x}, {x} + 1], {d})", f"{x}.flip({d})",
        f"torch.cat([{x}, {y}], {d})", f"torch.roll({x}, {s.number()}, {d})",
        f"torch.roll({x}, {s.small()})", f"F.pad({x}, (1, {s.small()}))", f"{x}.repeat(2, 1)",
        f"{x}.index_select({d}, torch.tensor([0, 0]))", f"{x}[torch.tensor([0, -1])]",
        f"{x}.gather({d}, torch.zeros_like({x}, dtype=torch.int64))", f"torch.arange({size})",
        f"torch.arange({size}, device={x}.device) * {s.number()}", f"{x}.repeat_interleave(2)",
        f"torch.full(({size}, 2), {s.number()})", f"torch.zeros({size}).add_({s.number()})",
        f"{x}.take(torch.tensor([0, 1]))", f"torch.tensor([1, 2])[{s.one(0, 1)}]", f"{x}.tril()",
        f"torch.empty_strided((2, 3), (1, 4)).copy_({s.number()} + torch.zeros(2, 3))",
        f"torch.empty_like({x}).copy_({x})", f"{x}.new_zeros({size}, 2)", f"{x}[{s.index(x)}] + 1",
        f"{x}[:, ::2] + {x}[:, 1::2]", f"{x}.clone().as_strided(({size},), (1,), {s.small()})")


def product(s: Scope) -> str:
    """Matrix products."""
    x = s.tensor(lambda t: t.is_floating_point() and t.dim() == 2)
    y = s.tensor(lambda t: t.is_floating_point() and t.dim() == 2)
    return f"{s.new()} = " + s.one(f"{x} @ {x}.t()", f"{x}.t() @ {y}", f"{x} @ {y}",
                                   f"F.linear({x}, {y})", f"torch.mm({x}, {y}.t())",
                                   f"{x}.unsqueeze(0).bmm({x}.t().unsqueeze(0))")


def on_data(s: Scope) -> str:
    """What sends the program through Python: breaks, items, shapes that depend on data."""
    x = s.tensor()
    i = s.one(f"{x}.sum().item()", f"float({x}.float().sum())", f"int({x}.sum())",
              f"{x}.numel()", f"{x}.shape[0]", f"bool({x}.any())", f"{x}.storage_offset()",
              f"{x}.dim() + 1", f"{x}.stride(0)")
    few = s.values[x].numel() <= 64  # Dynamo traces an operator for each element
    return s.one("torch._dynamo.graph_break()", "torch._dynamo.graph_break()",
                 "torch._dynamo.graph_break()", f"{s.new()} = {i}", f"{s.new()} = {i}",
                 f"{s.new()} = {x}[{x} > 0]", f"{s.new()} = {x}.nonzero()",
                 f"{s.new()} = {x}.masked_select({x} > 0)", f"{s.new()} = {x}.is_contiguous()",
                 f"{s.new()} = {x}.tolist()" if few else f"{s.new()} = {x}.shape",
                 f"{s.new()} = {x}.unique()")


def on_module(s: Scope) -> str:
    """A use or a change of a module's parameter or buffer."""
    m = s.pick(lambda v: isinstance(v, torch.nn.Module))
    x = s.float()
    return s.one(f"{s.new()} = {x} * {m}.w", f"{s.new()} = {m}.w", f"{s.new()} = {m}.b",
                 f"{m}.b.add_(1)", f"{m}.b = {m}.b + 1", f"{s.new()} = {m}.w.view(-1)",
                 f"{s.new()} = {m}.w[1:] + {m}.b[1:]", f"{m}.b.copy_({m}.w.detach())",
                 f"{s.new()} = F.linear({m}.w, {m}.b.unsqueeze(0))", f"{m}.b[0] = {s.number()}")


def compound(s: Scope) -> str:
    """A condition, a loop or a context around simpler statements."""
    first, second = (s.one(in_place, assignment)(s) for _ in range(2))
    cond = s.one(f"{s.number()} > {s.number()}", f"{s.tensor()}.sum() > 0.1", f"{s.number()} == 2",
                 f"{s.tensor()}.shape[0] > 3")
    if s.rng.random() < 0.3:
        name = s.new()
        value = pointwise(s).partition(" = ")[2]
        return f"if {cond}:\n    {name} = {value}\nelse:\n    {name} = {s.tensor()}"
    return s.one(f"if {cond}:\n    {first}\nelse:\n    {second}", f"if {cond}:\n    {first}",
                 f"for _ in range(2):\n    {first}", f"with torch.no_grad():\n    {first}")


WEIGHTS = {view: 26, conjugated: 5, split: 7, in_place: 22, assignment: 9, pointwise: 26,
           reduction: 7, arrangement: 9, product: 3, on_data: 7, on_module: 4, compound: 4}


def statement(s: Scope) -> str:
    """A random statement. Raises IndexError where a variable that it needs is missing."""
    (production,) = s.rng.choices([*WEIGHTS], [*WEIGHTS.values()])
    return production(s)
