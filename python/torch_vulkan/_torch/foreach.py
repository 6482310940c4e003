"""Operators on lists of tensors (`_foreach_add`, …) as operators on each of them. Optimizers and
clip_grad_norm_ call them."""

import torch

aten = torch.ops.aten

# Those whose operator on one tensor goes by another name.
_NAMES = {
    "maximum.Scalar": "clamp_min", "maximum.ScalarList": "clamp_min", "minimum.Scalar": "clamp_max",
    "minimum.ScalarList": "clamp_max", "zero": "zeros_like", "norm.Scalar": "linalg_vector_norm"}
_BY_NAME = {"alpha", "value", "dtype", "memory_format"}
_PREFIX = "aten::_foreach_"


def _each(operator):
    """A decomposition of `operator`; None where there is no operator on one tensor like it."""
    schema = operator._schema
    name = schema.name.removeprefix(_PREFIX)
    full = f"{name}.{schema.overload_name}" if schema.overload_name else name
    single = getattr(aten, _NAMES.get(full, name), None)
    lists = [isinstance(a.type, torch.ListType) for a in schema.arguments]
    # A tensor that holds a number for each tensor: their values are not known before the call.
    if single is None or any(a.name == "scalars" and not is_list for a, is_list in zip(
            schema.arguments, lists, strict=True)):
        return None
    names = ["value" if name in ("addcmul", "addcdiv") and a.name == "scalars" else a.name
             for a in schema.arguments]

    def each(*args, **kwargs):
        rest = schema.arguments[len(args):]
        given = [*args, *(kwargs.get(a.name, a.default_value) for a in rest)]
        count = max(len(v) for v, is_list in zip(given, lists, strict=True) if is_list)
        results = []
        for i in range(count):
            own = [v[i] if is_list else v for v, is_list in zip(given, lists, strict=True)]
            named = {n: v for n, v in zip(names, own, strict=True) if n in _BY_NAME}
            plain = [v for n, v in zip(names, own, strict=True) if n not in _BY_NAME]
            named = {n: v for n, v in named.items() if v is not None}
            results.append(single(*plain, **named))
        return results

    return each


def _functional():
    """The overloads that return new tensors."""
    for schema in torch._C._jit_get_all_schemas():
        name, overload = schema.name, schema.overload_name or "default"
        if not name.startswith(_PREFIX) or name.endswith("_") or overload.endswith("out"):
            continue
        yield getattr(getattr(aten, name.removeprefix("aten::")), overload)


def _fma(a, b, c):
    """What Dynamo writes of addcdiv, addcmul and add with a tensor for their factor."""
    return a * b + c


def decompositions() -> dict:
    """Of all operators on lists, and of the one that Dynamo makes of some for optimizers."""
    from torch._inductor import inductor_prims  # defines prims::fma; imported late, as it is slow

    known = {operator: _each(operator) for operator in _functional()}
    return {inductor_prims.fma: _fma, **{op: each for op, each in known.items() if each}}
