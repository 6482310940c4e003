"""Compiled programs as TorchScript modules: the source of `forward` is written from the graph.

Tracing would fix the sizes, and scripting cannot read a graph module; source text keeps dynamic
shapes, and torch.jit.load reads the result in C++ too.
"""

import base64
import copy
import io
import keyword
import math
import operator
import zipfile

import torch
from torch import fx, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from .graph_file import pack, unpack
from .signature import Signature

# The attribute that holds what tv.load reads beside the code: unlike an archive's extra files it is
# there again when torch.jit.save writes what torch.jit.load has read.
KEPT = "torch_vulkan_kept"
_PROGRAM = "torch_vulkan_program"
aten = torch.ops.aten
_INFIX = {operator.add: "+", operator.sub: "-", operator.mul: "*", operator.floordiv: "//",
          operator.mod: "%", operator.pow: "**", operator.truediv: "/", operator.eq: "==",
          operator.ne: "!=", operator.lt: "<", operator.le: "<=", operator.gt: ">",
          operator.ge: ">=", operator.and_: "&", operator.or_: "|"}
_CALLS = {torch.sym_max: "max", torch.sym_min: "min", torch.sym_float: "float",
          torch.sym_not: "not ", operator.neg: "-", math.floor: "math.floor",
          math.ceil: "math.ceil", math.trunc: "int"}
_SIZES = {aten.sym_size.int: "size", aten.sym_stride.int: "stride", aten.sym_numel.default: "numel",
          aten.sym_storage_offset.default: "storage_offset"}


def save(exported: ExportedProgram, signature: Signature, file, extra: dict[str, str],
         shown: str) -> None:
    """Writes the program to a file object, with texts that `load` gives back. The one named `shown`
    is a file of the archive, too, for whoever cannot read the module.

    Raises:
        ValueError: an input or output is neither a tensor nor a tuple of tensors, or the native
            part has an operator that TorchScript has no word for.
    """
    module = to_script(exported, signature)
    text = torch._C.StringType.get()
    module._c._register_attribute(KEPT, torch._C.DictType(text, text),
                                  {**extra, _PROGRAM: _packed(exported)})
    buffer = io.BytesIO()
    torch.jit.save(module, buffer, _extra_files={shown: extra[shown]})
    file.write(buffer.getbuffer())


def load(path, extra: dict[str, str]) -> ExportedProgram:
    """The ExportedProgram of a file that `save` wrote, or torch.jit.save of what had been read from
    it; fills `extra`."""
    with zipfile.ZipFile(path) as archive:
        written = {name.rsplit("/", 1)[-1] for name in archive.namelist() if "/extra/" in name}
    files = {name: "" for name in extra if name in written}
    module = torch.jit.load(path, _extra_files=files)
    kept = getattr(module, KEPT)
    extra |= {name: kept.get(name, "") for name in extra}
    extra |= {name: text.decode() if isinstance(text, bytes) else text
              for name, text in files.items()}
    program = unpack(base64.b64decode(kept[_PROGRAM]))
    held = {name: nn.Parameter(tensor.detach(), requires_grad=tensor.requires_grad)
            for name, tensor in module.named_parameters(remove_duplicate=False)}
    held |= dict(module.named_buffers(remove_duplicate=False))
    program._state_dict = {name: held[name] for name in program.state_dict}
    program._constants = {name: held[name] if name in held else getattr(module, name)
                          for name in program.constants}
    return program


def _packed(exported: ExportedProgram) -> str:
    """The graph alone: the TorchScript module has the tensors and the engines."""
    program = copy.copy(exported)
    program._constants = {
        name: _no_engine() if isinstance(value, torch.ScriptObject) else value
        for name, value in program.constants.items()}
    return base64.b64encode(pack(program)).decode()


def _no_engine():
    return torch.classes.torch_vulkan.Engine(torch.empty(0, dtype=torch.uint8), "", False, False)


def to_script(exported: ExportedProgram, signature: Signature) -> torch.jit.ScriptModule:
    """The program as a TorchScript module, with the same tensors and engines. Raises as `save`."""
    source = _Writer(exported, signature).source()
    module = torch.jit._recursive.create_script_module(
        _tree(exported), lambda _: [], share_types=False)
    module.define(source)
    return module


def _tree(exported: ExportedProgram) -> nn.Module:
    """Modules without code that hold what the graph takes, under its names."""
    root = nn.Module()
    signature = exported.graph_signature
    buffers = {spec.target for spec in signature.input_specs if spec.kind in (
        InputKind.BUFFER, InputKind.CONSTANT_TENSOR)}
    for name, value in {**exported.state_dict, **exported.constants}.items():
        *path, last = name.split(".")
        owner = root
        for part in path:
            if not hasattr(owner, part):
                owner.add_module(part, nn.Module())
            owner = getattr(owner, part)
        if isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter):
            if name in buffers or name in exported.state_dict:
                owner.register_buffer(last, value)
        else:
            setattr(owner, last, value)
    return root.eval()


class _Writer:
    """Writes the source of `forward`."""

    def __init__(self, exported: ExportedProgram, signature: Signature):
        self._exported = exported
        self._signature = signature
        self._names: dict[fx.Node, str] = {}
        self._lines: list[str] = []

    def source(self) -> str:
        parameters = self._parameters()
        self._conditions()
        graph = self._exported.graph
        for node in graph.nodes:
            if node.op == "call_function":
                self._names[node] = f"v{len(self._names)}"
                self._line(f"{self._names[node]} = {self._call(node)}")
        self._returns(graph.output_node())
        head = ", ".join(["self", *parameters])
        return f"def forward({head}):\n" + "\n".join(self._lines) + "\n"

    def _conditions(self) -> None:
        """What the capture found out about sizes, where TorchScript has words for it."""
        nodes = self._exported.graph.find_nodes(op="placeholder")
        user = [self._names[node] for spec, node in zip(
            self._exported.graph_signature.input_specs, nodes, strict=True)
            if spec.kind == InputKind.USER_INPUT]
        conditions = self._signature.conditions
        for tree in conditions.trees if conditions else ():
            if conditions.is_arithmetic(tree):
                code = conditions.code(tree, user)
                self._line(f"assert {code}, {'shapes: want ' + conditions.text(tree)!r}")

    def _line(self, text: str) -> None:
        self._lines.append("    " + text)

    def _parameters(self) -> list[str]:
        specs = self._exported.graph_signature.input_specs
        nodes = self._exported.graph.find_nodes(op="placeholder")
        user = []
        for spec, node in zip(specs, nodes, strict=True):
            if spec.kind == InputKind.USER_INPUT:
                user.append(node)
            else:
                self._names[node] = _attribute(spec.target)
        args, kwargs = self._signature.tree(user)
        names = self._signature.names_of(len(args))
        return [self._parameter(name, tree) for name, tree in
                [*zip(names, args, strict=True), *kwargs.items()]]

    def _parameter(self, name: str, tree) -> str:
        name = f"{name}_" if keyword.iskeyword(name) or name in ("self", "torch") else name
        self._unpack(name, tree)
        return f"{name}: {self._type(name, tree)}"

    def _type(self, name, tree) -> str:
        if isinstance(tree, fx.Node):
            value = tree.meta.get("val")
            if isinstance(value, torch.Tensor):
                return "Tensor"
            if isinstance(value, (bool, int, float)):
                return type(value).__name__
            if isinstance(value, torch.SymInt):
                return "int"
        elif isinstance(tree, (tuple, list)) and tree:
            return "Tuple[" + ", ".join(self._type(name, item) for item in tree) + "]"
        raise ValueError(f"TorchScript takes tensors and tuples of tensors; argument {name!r} is "
                         "something else: output_format='exported_program' takes it")

    def _unpack(self, name: str, tree) -> None:
        if isinstance(tree, fx.Node):
            self._names[tree] = name
            value = tree.meta.get("val")
            if isinstance(value, (bool, int, float)):
                self._line(f"assert {name} == {_literal(value)}")
        elif isinstance(tree, (tuple, list)):
            for i, item in enumerate(tree):
                self._unpack(f"{name}[{i}]", item)

    def _returns(self, output: fx.Node) -> None:
        results = []
        specs = self._exported.graph_signature.output_specs
        targets = {spec.target: node for spec, node in zip(
            self._exported.graph_signature.input_specs,
            self._exported.graph.find_nodes(op="placeholder"), strict=True) if spec.target}
        nodes = {node.name: node for node in self._names}
        for spec, value in zip(specs, output.args[0], strict=True):
            if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION):
                self._line(f"{self._names[targets[spec.target]]}.copy_({self._value(value)})")
            elif spec.kind == OutputKind.USER_INPUT_MUTATION:
                self._line(f"{self._names[nodes[spec.target]]}.copy_({self._value(value)})")
            else:
                results.append(self._value(value))
        tree = torch.utils._pytree.tree_unflatten(results, self._signature.out_spec)
        self._line(f"return {self._result(tree)}")

    def _result(self, tree) -> str:
        if isinstance(tree, str):
            return tree
        if type(tree) is tuple:
            return "(" + "".join(self._result(item) + ", " for item in tree) + ")"
        if type(tree) is list and tree and all(isinstance(item, str) for item in tree):
            return "[" + ", ".join(tree) + "]"
        raise ValueError(f"TorchScript returns tensors and tuples of tensors, got a "
                         f"{type(tree).__name__}: output_format='exported_program' takes it")

    def _call(self, node: fx.Node) -> str:
        target = node.target
        if target is operator.getitem:
            return f"{self._names[node.args[0]]}[{node.args[1]}]"
        if target in _SIZES:
            tensor, *rest = map(self._value, node.args)
            return f"{tensor}.{_SIZES[target]}({', '.join(rest)})"
        if target in _INFIX and len(node.args) == 2:
            a, b = map(self._value, node.args)
            return f"({a} {_INFIX[target]} {b})"
        if target in _CALLS:
            return f"{_CALLS[target]}({', '.join(map(self._value, node.args))})"
        if not isinstance(target, torch._ops.OpOverload):
            raise ValueError(f"TorchScript has no word for {target} in the native part: "
                             "output_format='exported_program' takes it")
        arguments = target._schema.arguments
        given = [self._value(value, str(argument.type))
                 for value, argument in zip(node.args, arguments)]
        types = {argument.name: str(argument.type) for argument in arguments}
        given += [f"{name}={self._value(value, types[name])}"
                  for name, value in node.kwargs.items()]
        return f"torch.ops.{target.namespace}.{target._opname}({', '.join(given)})"

    def _value(self, value, type_text: str = "") -> str:
        if isinstance(value, fx.Node):
            return self._names[value]
        if isinstance(value, (list, tuple)):
            return self._list(value, type_text)
        if type_text in ("float", "Optional[float]") and isinstance(value, int):
            value = float(value)
        return _literal(value)

    def _list(self, values, type_text: str) -> str:
        items = "[" + ", ".join(self._value(value) for value in values) + "]"
        optional = "Optional[Tensor]" in type_text
        if values and not optional:
            return items
        element = "Optional[Tensor]" if optional else {
            "Tensor": "Tensor", "float": "float", "bool": "bool"}.get(
                type_text.removeprefix("List[").removesuffix("]"), "int")
        return f"torch.jit.annotate(List[{element}], {items})"


def _attribute(path: str) -> str:
    text = "self"
    for name in path.split("."):
        plain = name.isidentifier() and not keyword.iskeyword(name)
        text = f"{text}.{name}" if plain else f"getattr({text}, {name!r})"
    return text


def _literal(value) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if isinstance(value, torch.device):
        return f"torch.device('{value}')"
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return str(value)
    raise ValueError(f"TorchScript has no word for {value!r} in the native part: "
                     "output_format='exported_program' takes it")
