"""The inputs of a program: tensors of fixed shape, or ranges of shapes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.utils import _pytree as pytree


@dataclass
class Input:
    """An input tensor of a model: a fixed `shape`, or a range of shapes of the same rank.

    A dimension whose minimum and maximum differ is dynamic. Kernels are chosen for `opt_shape`;
    every shape from `min_shape` to `max_shape` runs without a rebuild.

    Attributes:
        shape: sizes in elements, if they are fixed.
        min_shape, opt_shape, max_shape: the range, if they are not.
        dtype: of the tensor.
        name: its name in messages and engine files; None: the name of the model's argument.

    Raises:
        ValueError: the shapes do not fit together, or are invalid.
    """

    shape: Sequence[int] | None = None
    min_shape: Sequence[int] | None = None
    opt_shape: Sequence[int] | None = None
    max_shape: Sequence[int] | None = None
    dtype: torch.dtype = torch.float32
    name: str | None = None

    def __post_init__(self):
        ranges = (self.min_shape, self.opt_shape, self.max_shape)
        if (self.shape is None) == all(r is None for r in ranges) or (
                self.shape is None and any(r is None for r in ranges)):
            raise ValueError("Input: got " + repr(self) + ", want either shape, or all of "
                             "min_shape, opt_shape and max_shape")
        if not isinstance(self.dtype, torch.dtype):
            raise ValueError(f"Input: got dtype {self.dtype!r}, want a torch.dtype")
        if self.shape is not None:
            self.shape = _sizes(self.shape)
            return
        self.min_shape, self.opt_shape, self.max_shape = ranges = tuple(map(_sizes, ranges))
        named = dict(zip(("min_shape", "opt_shape", "max_shape"), ranges))
        if len(set(map(len, ranges))) > 1:
            text = ", ".join(f"{name} {shape} has {len(shape)}" for name, shape in named.items())
            raise ValueError(f"Input: the shapes have different numbers of dimensions: {text}; "
                             "want the same for all three")
        for d, (low, opt, high) in enumerate(zip(*ranges, strict=True)):
            if not low <= opt <= high:
                raise ValueError(f"Input: dimension {d}: got min_shape {low}, opt_shape {opt}, "
                                 f"max_shape {high}, want min_shape <= opt_shape <= max_shape")

    @classmethod
    def of(cls, value) -> "Input":
        """`value` if it is an Input, else the Input that a tensor stands for."""
        return value if isinstance(value, Input) else cls(value.shape, dtype=value.dtype)

    @property
    def dims(self) -> list[tuple[int, int, int]]:
        """(min, opt, max) of each dimension."""
        if self.shape is not None:
            return [(size, size, size) for size in self.shape]
        return list(zip(self.min_shape, self.opt_shape, self.max_shape, strict=True))

    def example(self, device: torch.device | str = "cpu",
                known: list[int] | None = None) -> torch.Tensor:
        """A tensor to trace the model with. Its dynamic dimensions are 2 or more, because tracing
        with 1 would specialise the graph to one row. They have a size from `known` if their range
        contains one; other sizes are added to `known`."""
        sizes = []
        for low, size, high in self.dims:
            if low != high:
                size = max(size, min(2, high))
                if known is not None:
                    size = next((k for k in known if max(low, 2) <= k <= high), size)
                    known.append(size)
            sizes.append(size)
        return torch.zeros(sizes, dtype=self.dtype, device=device)

    def dynamic_dims(self) -> dict:
        """dimension → the range as torch.export's object."""
        return {d: torch.export.Dim.DYNAMIC(min=low, max=high)
                for d, (low, _, high) in enumerate(self.dims) if low != high}


def _sizes(shape) -> tuple[int, ...]:
    try:
        sizes = tuple(int(size) for size in shape)
        if all(a == b and 0 <= a < 2**63 for a, b in zip(sizes, shape, strict=True)):
            return sizes
    except (OverflowError, TypeError, ValueError):
        pass
    raise ValueError(f"Input: got shape {shape!r}, want sizes from 0 to 2^63 - 1")


class Profile:
    """A shape profile, a range of shapes that an engine is built for: input name → (min, opt, max)
    shapes. `tv.profile` is another thing: it times layers.

        tv.Profile(x=((1, 3, 224, 224), (8, 3, 224, 224), (16, 3, 224, 224)))
    """

    def __init__(self, **shapes):
        self.inputs = {}
        for name, ranges in shapes.items():
            if not isinstance(ranges, Sequence) or len(ranges) != 3:
                raise ValueError(f"Profile: {name!r}: got {ranges!r}, want (min, opt, max) shapes")
            low, opt, high = ranges
            try:
                self.inputs[name] = Input(min_shape=low, opt_shape=opt, max_shape=high, name=name)
            except ValueError as error:
                raise ValueError(f"Profile: {name!r}: {error}") from None

    def divide(self, signature) -> list:
        """The ranges of a program's arguments under this shape profile; the whole range for
        those that it does not name.

        Raises:
            ValueError: an argument is unknown, or a range is outside of the program's.
        """
        arguments = {a.name: a for a in signature.arguments if a.dtype is not None}
        for name, given in self.inputs.items():
            if name not in arguments:
                raise ValueError(f"Profile: no input {name!r}; got inputs {sorted(arguments)}")
            given.dtype = arguments[name].dtype
            dims = arguments[name].dims
            for d, ((low, _, high), dim) in enumerate(zip(given.dims, dims, strict=False)):
                first, _, last = signature.ranges.get(dim, (dim, dim, dim))
                if len(dims) == len(given.dims) and (dim not in signature.ranges
                                                     and not isinstance(dim, int)):
                    continue  # follows from other dimensions
                if len(dims) != len(given.dims) or low < first or (
                        last is not None and high > last):
                    raise ValueError(f"Profile: input {name!r} dimension {d}: got {low} to {high}, "
                                     f"want a part of {first} to {last}")
        return [self.inputs.get(a.name) if a.dtype is not None else None
                for a in signature.arguments]

    def __repr__(self):
        ranges = (f"{name}=({i.min_shape}, {i.opt_shape}, {i.max_shape})"
                  for name, i in self.inputs.items())
        return f"Profile({', '.join(ranges)})"


def is_leaf(value) -> bool:
    """True for values that pytree must not look into."""
    return isinstance(value, Input)


@dataclass
class Arguments:
    """A call's arguments with `Input`s and tensors in them, nested as the model takes them."""

    args: tuple
    kwargs: dict

    @classmethod
    def of(cls, inputs, kwarg_inputs) -> "Arguments":
        """Raises ValueError unless `inputs` is a sequence or a mapping by keyword."""
        if isinstance(inputs, Mapping):
            args, kwargs = (), {**inputs, **(kwarg_inputs or {})}
        elif isinstance(inputs, Sequence) and not isinstance(inputs, (str, bytes)):
            args, kwargs = tuple(inputs), dict(kwarg_inputs or {})
        else:
            raise ValueError(f"inputs: got {type(inputs).__name__}, want a list (one item an "
                             "argument) or a dict (by keyword)")
        return cls(args, kwargs)

    def examples(self, device, alike: bool = False) -> tuple[tuple, dict]:
        """The same with tensors in place of `Input`s, of their opt sizes; `alike`: dynamic
        dimensions are equal if their ranges allow it."""
        known = [] if alike else None

        def example(value):
            return value.example(device, known) if isinstance(value, Input) else value

        return pytree.tree_map(example, (self.args, self.kwargs), is_leaf=is_leaf)

    def dynamic_shapes(self) -> tuple[tuple, dict]:
        """The same with torch.export's ranges in place of `Input`s and tensors."""
        def dims(value):
            return value.dynamic_dims() or None if isinstance(value, Input) else None

        return pytree.tree_map(dims, (self.args, self.kwargs), is_leaf=is_leaf)

    def like_shapes(self) -> str:
        """What to write instead where an argument looks like the shape of a tensor; else ""."""
        for at, value in [*enumerate(self.args), *self.kwargs.items()]:
            if isinstance(value, (tuple, list)) and value and all(
                    isinstance(size, int) and not isinstance(size, bool) for size in value):
                return (f"Input {at!r} is {value!r}: for a tensor of that shape write "
                        f"tv.Input({tuple(value)})")
        return ""

    def leaves(self) -> list:
        """`Input`s, tensors and other values in the order in which torch.export flattens them."""
        return pytree.tree_leaves((self.args, self.kwargs), is_leaf=is_leaf)
