"""Types of a file's values: those that onnx's inference finds, and ranks that follow from less than
it asks for. Engines behind native nodes need them."""

import onnx
from onnx import helper

_LARGE = 1024  # bytes of an initializer that say nothing of sizes
_ROUNDS = 64  # a rank that is found tells the next


def inferred(proto: onnx.ModelProto) -> onnx.ModelProto | None:
    """The model with types, without the elements of large initializers; None where onnx finds it
    wrong."""
    slim = onnx.ModelProto()
    slim.CopyFrom(proto)
    for tensor in slim.graph.initializer:
        if tensor.ByteSize() > _LARGE:
            for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data",
                          "uint64_data", "string_data", "external_data"):
                tensor.ClearField(field)
    for _ in range(_ROUNDS):
        try:
            found = onnx.shape_inference.infer_shapes(slim, data_prop=True)
        except Exception:  # of many types
            return None
        more = _ranks(found)
        if not more:
            return found
        kept = [value for value in slim.graph.value_info if value.name not in more]
        del slim.graph.value_info[:]
        slim.graph.value_info.extend([*kept, *more.values()])
        for value in slim.graph.output:  # which stand for themselves
            if value.name in more:
                value.CopyFrom(more[value.name])
    return found


def _ranks(model: onnx.ModelProto) -> dict[str, onnx.ValueInfoProto]:
    """Of values whose rank is not known and follows from their node's inputs."""
    graph = model.graph
    types = {value.name: value.type for value in
             (*graph.input, *graph.value_info, *graph.output)}
    sizes = {tensor.name: [*tensor.dims] for tensor in graph.initializer}
    kinds = {tensor.name: tensor.data_type for tensor in graph.initializer}

    def shape(name):
        if name in sizes:
            return sizes[name]
        kind = types.get(name)
        if kind is None or not kind.HasField("tensor_type") or (
                not kind.tensor_type.HasField("shape")):
            return None
        return [dim.dim_value if dim.HasField("dim_value") else None
                for dim in kind.tensor_type.shape.dim]

    def element(name):
        return kinds.get(name) or (types[name].tensor_type.elem_type if name in types else 0)

    found = {}
    for node in graph.node:
        if node.domain not in ("", "ai.onnx"):
            continue
        for name, kind, dims in _outputs(node, shape, element):
            kind = kind or element(name)
            if name and shape(name) is None and kind:
                found[name] = helper.make_tensor_value_info(name, kind, dims)
    return found


def _outputs(node, shape, element):
    """(name, element type, sizes or None of each dimension) of outputs that are as well known as
    the inputs."""
    rule = _RULES.get(node.op_type) or (_reduced if node.op_type.startswith("Reduce") else None)
    if rule is None or not node.output:
        return []
    if node.op_type == "Loop":
        return rule(node)
    given = [shape(name) for name in node.input]
    rank = rule(node, given)
    kind = element(node.input[0]) if node.input and node.op_type != "ConstantOfShape" else 0
    return [] if rank is None or rank < 0 else [(node.output[0], kind, [None] * rank)]


def _rank(shape) -> int | None:
    return None if shape is None else len(shape)


def _same(node, given):
    return _rank(given[0])


def _reduced(node, given):
    keeps = next((a.i for a in node.attribute if a.name == "keepdims"), 1)
    return _rank(given[0]) if keeps else _fewer(node, given)


def _count(given, i) -> int | None:
    """Elements of a vector."""
    return given[i][0] if len(given) > i and given[i] is not None and len(given[i]) == 1 else None


def _counted(i):
    return lambda node, given: _count(given, i)


def _fewer(node, given):
    count = _count(given, 1)
    return None if given[0] is None or count is None else len(given[0]) - count


def _more(node, given):
    count = _count(given, 1)
    return None if given[0] is None or count is None else len(given[0]) + count


def _expanded(node, given):
    count = _count(given, 1)
    return None if given[0] is None or count is None else max(len(given[0]), count)


def _carried(node):
    """What a loop carries has the type that its body declares."""
    body = next(a.g for a in node.attribute if a.name == "body")
    for name, value in zip(node.output, body.output[1:len(node.input) - 1], strict=False):
        kind = value.type.tensor_type
        if value.type.HasField("tensor_type") and kind.HasField("shape"):
            yield name, kind.elem_type, [dim.dim_value if dim.HasField("dim_value") else None
                                         for dim in kind.shape.dim]


_RULES = {
    "Compress": lambda node, given: _rank(given[0]) if any(
        a.name == "axis" for a in node.attribute) else 1,
    "ConstantOfShape": _counted(0), "Expand": _expanded, "Loop": _carried, "Pad": _same,
    "Range": lambda node, given: 1, "Reshape": _counted(1), "Resize": _same, "Slice": _same,
    "Squeeze": _fewer, "Tile": _same, "Unsqueeze": _more, "Upsample": _same,
}
