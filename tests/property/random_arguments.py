"""Arguments for any operator of the registry, drawn by its schema. Most of what is drawn is no
valid call: eager decides."""

import torch

NUMBERS = (1, 2, 0.5, -1.5, 0, 3)
INTS = (1, 2, 0, 3, -1)
TEXTS = {"rounding_mode": ("trunc", "floor"), "approximate": ("none", "tanh"),
         "reduce": ("sum", "prod", "amax", "amin", "mean"), "side": ("left", "right")}
PLACEMENT = ("pin_memory", "device", "layout", "memory_format", "non_blocking")


class Chooser:
    """Draws from hypothesis, so that what fails shrinks to the first of everything."""

    def __init__(self, draw):
        self._draw = draw

    def one_of(self, options):
        from hypothesis import strategies as st

        return self._draw(st.sampled_from(list(options)))

    def number(self, low: int, high: int) -> int:
        from hypothesis import strategies as st

        return self._draw(st.integers(low, high))

    def chance(self, percent: int) -> bool:
        return self.number(0, 99) >= 100 - percent


def draw_arguments(op, values: list[torch.Tensor], choose: Chooser):
    """(args, kwargs) of a call; a tensor is drawn as its number in `values`, wrapped in Ref."""
    args, kwargs, first = [], {}, None
    for argument in op._schema.arguments:
        has_default = argument.has_default_value()
        text = str(argument.type)
        rare = text.startswith("Optional") and argument.name != "rounding_mode"
        skipped = has_default and (argument.name in PLACEMENT or choose.chance(70 if rare else 50))
        if skipped:
            value = argument.default_value
        else:
            value = _draw(argument.name, text, values, first, choose)
        if isinstance(value, Ref) and first is None:
            first = values[value.number]
        if argument.name == "max_val":  # hardtanh's reference refuses one below the smallest
            value = max(value, args[-1])
        if argument.kwarg_only:
            kwargs[argument.name] = value
        else:
            args.append(value)
    return args, kwargs


class Ref:
    """Stands for a value of the graph."""

    def __init__(self, number: int):
        self.number = number

    def __repr__(self):
        return f"v{self.number}"


def _like(values, first, choose):
    """A value, of the shape of the first argument as often as not."""
    alike = [i for i, v in enumerate(values) if first is not None and v.shape == first.shape]
    if alike and choose.chance(70):
        return Ref(choose.one_of(alike))
    return Ref(choose.number(0, len(values) - 1))


def _draw(name, text, values, first, choose):
    shape = list(first.shape) if first is not None else []
    rank = max(len(shape), 1)
    inner = text.removeprefix("Optional[").removesuffix("]") if "Optional[" in text[:9] else text
    if inner == "Tensor":
        return _like(values, first, choose)
    if inner == "List[Tensor]":
        return [_like(values, first or values[0], choose) for _ in range(choose.number(1, 3))]
    if inner == "List[Optional[Tensor]]":
        whole = [i for i, v in enumerate(values) if v.dtype in (torch.int32, torch.int64)]
        return [Ref(choose.one_of(whole))] if whole else []  # a mask gives sizes by its data
    if inner == "bool":
        return choose.chance(50)
    if inner == "float":
        return float(choose.one_of(NUMBERS))
    if inner == "number":
        return choose.one_of(NUMBERS)
    if inner == "int":
        if "dim" in name:
            return choose.number(-rank, rank - 1)
        if name in ("dtype", "layout", "memory_format"):
            return torch.float32 if name == "dtype" else None
        return choose.one_of(INTS)
    if inner.startswith("List["):
        return _draw_list(name, inner, shape, choose)
    if inner == "str":
        return choose.one_of(TEXTS.get(name, ("none",)))
    return None


def _draw_list(name, inner, shape, choose):
    rank = len(shape)
    if inner == "List[float]":
        return [float(choose.one_of((2, 0.5))) for _ in range(max(rank - 2, 0))]
    if inner == "List[bool]":
        return [True, True, True]
    if "dim" in name:
        dims = [d for d in range(rank) if choose.chance(50)]
        return dims[::-1] if choose.chance(30) else dims
    if name in ("size", "shape", "self_size"):
        forms = [[-1], shape, [1, *shape], shape[::-1], [*shape[:-2], -1], [2, -1]]
        return choose.one_of(forms)
    if name == "normalized_shape":
        return shape[-1:]
    if name == "pad":
        return [choose.number(-1, 2) for _ in range(2 * choose.number(1, max(rank, 1)))]
    if name == "output_size":
        return [choose.number(1, 6) for _ in range(max(rank - 2, 1))]
    if name in ("repeats", "split_sizes", "shifts", "dims"):
        return [choose.number(0, 2) for _ in range(rank)]
    length = choose.one_of((max(rank - 2, 1), rank))
    return [choose.number(0 if "padding" in name else 1, 2) for _ in range(length)]
