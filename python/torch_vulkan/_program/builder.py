"""tv.Builder: builds a network operator by operator, as one stand-alone engine."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils import _pytree as pytree

from .._aot import exporting
from .._base.errors import OUT_OF_MEMORY
from .._base.inputs import Arguments, Input, Profile
from .._base.settings import Settings
from .._engines.engine import Engine, tensor_bytes
from .._torch.ranges import compiled_for
from . import layer_precisions
from .program import compile_source

# A dynamic dimension is tried with these two sizes; where a result's sizes differ it is dynamic.
_TRIAL_SIZES = (240, 480)
_LAYERS = "layers"  # what the modules of operators are in


@dataclass(frozen=True, eq=False)
class Value:
    """The result of an input, weight or operator of a Builder; `Builder.op` takes it as an
    argument.

    Attributes:
        shape: sizes in elements; -1 for a dynamic one.
        dtype: of the elements.
    """

    index: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    _trials: tuple
    _builder: object


class Builder:
    """Collects a network operator by operator, then builds an engine from it.

        b = tv.Builder()
        x = b.input("x", (-1, 8))
        y = b.op("aten::relu", b.op("aten::mm", x, b.weight("w", torch.randn(8, 4))))
        b.output("y", y)
        engine = b.build(profiles=[tv.Profile(x=((1, 8), (4, 8), (64, 8)))])
        engine.run({"x": torch.randn(3, 8)})["y"]
    """

    def __init__(self):
        self._inputs: dict[str, Value] = {}
        self._weights: dict[str, tuple[Value, torch.Tensor]] = {}
        self._calls: list[tuple] = []  # (operator, args, kwargs, results, name of the layer)
        self._outputs: dict[str, Value] = {}
        self._choices = layer_precisions.Choices()
        self._count = 0

    def input(self, name: str, shape: Sequence[int],
              dtype: torch.dtype = torch.float32) -> Value:
        """Adds an input of the network.

        Args:
            name: an identifier, unique in the network.
            shape: sizes in elements; -1 for a dynamic dimension.
            dtype: of the tensor.

        Raises:
            ValueError: the name is taken or is not an identifier, or the shape is invalid.
        """
        self._check_name(name)
        shape = tuple(shape)
        if not all(isinstance(size, int) and size >= -1 for size in shape):
            raise ValueError(f"[builder] input {name!r}: got shape {shape}, want sizes of 0 or "
                             "more, or -1 for a dynamic one")
        trials = tuple(torch.empty([trial if s == -1 else s for s in shape], dtype=dtype,
                                   device="meta") for trial in _TRIAL_SIZES)
        self._inputs[name] = self._value(trials)
        self._choices.inputs[name] = self._inputs[name].index
        return self._inputs[name]

    def weight(self, name: str, value: torch.Tensor) -> Value:
        """Adds a constant, which can be refitted later. Raises ValueError as `input` does."""
        self._check_name(name)
        tensor = torch.as_tensor(value).detach()
        made = self._value((tensor.to("meta"),) * len(_TRIAL_SIZES))
        self._weights[name] = (made, tensor)
        return made

    def op(self, operator: str, *args, **kwargs):
        """Adds an ATen operator.

        Args:
            name: "aten::relu", or with its overload "aten::add.Tensor".
            args, kwargs: as torch takes them, with Values in place of tensors.

        Returns:
            The result, or a tuple of them if the operator has several.

        Raises:
            ValueError: there is no such operator, or it does not take these arguments.
        """
        call = _resolve(operator)
        leaves = pytree.tree_leaves((args, kwargs))
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor):
                raise ValueError(f"[{operator}] got a tensor; want Values: b.weight makes one")
            if isinstance(leaf, Value) and leaf._builder is not self:
                raise ValueError(f"[{operator}] got a Value of another Builder")
        results = []
        for trial in range(len(_TRIAL_SIZES)):
            given, named = pytree.tree_map_only(
                Value, lambda value, trial=trial: value._trials[trial], (args, kwargs))
            try:
                results.append(call(*given, **named))
            except OUT_OF_MEMORY:
                raise
            except Exception as error:
                raise ValueError(f"[{operator}] does not take these arguments: {error}") from error
        several = isinstance(results[0], (tuple, list))
        rows = zip(*results) if several else [tuple(results)]
        values = [self._value(row) for row in rows]
        # "relu_2" of "aten::relu.default", the third operator.
        layer = f"{operator.rpartition(':')[2].partition('.')[0]}_{len(self._calls)}"
        self._calls.append((call, args, kwargs, values, layer))
        self._choices.layers[f"{_LAYERS}.{layer}"] = [value.index for value in values]
        return tuple(values) if several else values[0]

    def output(self, name: str, value: Value) -> None:
        """Makes a Value an output of the network, under a name. Raises ValueError if the Value is
        an output already, or the name is taken."""
        if not isinstance(value, Value) or value._builder is not self:
            raise ValueError(f"[builder] output {name!r}: got {type(value).__name__}, want a Value "
                             "of this Builder")
        if name in self._outputs or value in self._outputs.values():
            raise ValueError(f"[builder] output {name!r}: it, or what it names, is an output "
                             "already")
        self._outputs[name] = value

    def set_dynamic_range(self, value: Value, low: float, high: float) -> None:
        """Says which numbers a tensor holds, so that products and convolutions with constant
        weights may read it in int8, in steps of the larger magnitude / 127; other numbers are
        clipped. It needs torch.int8 in `enabled_precisions`, and comes before what `calibration`
        says. Views of the tensor have its range, too. A range that changes nothing is a warning of
        `build`.

        Args:
            value: an input, or the result of an operator.
            low: its smallest number.
            high: its largest number.

        Raises:
            ValueError: the value is no input or operator's result of this Builder, or the bounds
                are no range.
        """
        self._check_made(value, "set_dynamic_range")
        self._choices.amax[value.index] = layer_precisions.largest(low, high)

    def set_precision(self, value: Value, dtype: torch.dtype) -> None:
        """Says what the operator that made a value is computed in; `build` raises ValueError, with
        the reason, where it cannot be.

        Args:
            value: a result of the operator.
            dtype: torch.float32: it stays so, as with the setting `autocast_excluded_nodes`.
                torch.float16 or torch.bfloat16: in that type, not in int8. torch.int8: a product or
                convolution with constant weights is computed in integers, even where floats were
                measured to be faster; its input wants a range. The last three want the type in
                `enabled_precisions`.

        Raises:
            ValueError: the value is no operator's result of this Builder, or dtype is another.
        """
        self._check_made(value, "set_precision")
        if dtype not in layer_precisions.PRECISIONS:
            known = ", ".join(map(str, layer_precisions.PRECISIONS))
            raise ValueError(f"[builder] set_precision: got {dtype!r}, want one of {known}")
        paths = [path for path, made in self._choices.layers.items() if value.index in made]
        if not paths:
            raise ValueError("[builder] set_precision: got an input, want an operator's result")
        self._choices.precisions[paths[0]] = dtype

    def _check_made(self, value, who: str) -> None:
        if not isinstance(value, Value) or value._builder is not self:
            raise ValueError(f"[builder] {who}: got {type(value).__name__}, want a Value of this "
                             "Builder")
        if any(value is weight for weight, _ in self._weights.values()):
            raise ValueError(f"[builder] {who}: got a weight, want an input or an operator's "
                             "result: the range of a weight follows from it")

    def _check_name(self, name):
        used = not isinstance(name, str) or hasattr(nn.Module(), name) or name == _LAYERS
        if used or not name.isidentifier():
            raise ValueError(f"[builder] name {name!r}: want an identifier that torch.nn.Module "
                             f"does not use, and not {_LAYERS!r}")
        if name in self._inputs or name in self._weights:
            raise ValueError(f"[builder] name {name!r} is taken")

    def _value(self, trials) -> Value:
        first, second = (tuple(trial.shape) for trial in trials)
        shape = tuple(a if a == b else -1 for a, b in zip(first, second, strict=True))
        self._count += 1
        return Value(self._count - 1, shape, trials[0].dtype, tuple(trials), self)

    def build(self, profiles: Sequence[Profile] | None = None, **settings) -> Engine:
        """Builds the network as one engine with its weights.

        Args:
            profiles: the ranges of shapes to build for; required if an input has a dynamic
                dimension. With several, a run uses the kernels of the profile whose opt shape is
                nearest.
            settings: docs/settings.md.

        Raises:
            ValueError: an input has no range, a profile does not fit, there is no output, a setting
                is invalid, or an operator is not supported (with the reason).
            DeviceError: there is no Vulkan device.
        """
        if not self._outputs:
            raise ValueError("[builder] the network has no output: call b.output(name, value)")
        # Ranges are a calibration, too.
        checked = Settings.from_options({**settings, "require_full_compilation": True},
                                        of_file=bool(self._choices.amax))
        checked.refuse_background_tuning("[builder]", "what it returns is one finished engine")
        choices = [self._ranges(profile) for profile in profiles or [Profile()]]
        module = _Network(self)
        union = _union(choices)
        source = exporting.export(module, Arguments(tuple(union), {}))
        checked = self._constrained(source, union, checked)
        program = compile_source(source, union, checked, choices, [*self._outputs])
        engines = list(program.engine_objects().values())
        if len(engines) != 1:
            raise ValueError(f"[builder] got {len(engines)} engines, want one: an output that is "
                             "an input or a weight needs an operator between")
        engine = Engine(tensor_bytes(engines[0].vke()), checked.device)
        engine.set_weights([self._weights[w["name"]][1] for w in engine.info()["weights"]])
        engine.set_conditions(program.signature.conditions)
        return engine

    def _constrained(self, source, union: list[Input], settings: Settings) -> Settings:
        """The settings with the ranges and precisions of this network."""
        if not self._choices.any():
            return settings
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*LeafSpec", category=FutureWarning)
            program = exporting.decompose(source)
            signature = exporting.signature_of(program, union)
        module, weights = exporting.module_of(program, signature)
        output = module.graph.output_node()
        output.args = (tuple(output.args[0]),)
        with compiled_for(signature.sizes):
            return layer_precisions.settings_of(self._choices, module, weights, settings)

    def _ranges(self, profile: Profile) -> list[Input]:
        unknown = [name for name in profile.inputs if name not in self._inputs]
        if unknown:
            raise ValueError(f"[builder] shape profile: no input {unknown[0]!r}; got inputs "
                             f"{sorted(self._inputs)}")
        ranges = []
        for name, value in self._inputs.items():
            given = profile.inputs.get(name)
            if given is None and -1 in value.shape:
                raise ValueError(f"[builder] input {name!r} has dynamic dimensions {value.shape}: "
                                 f"profiles=[tv.Profile({name}=(min, opt, max))] gives their range")
            given = given or Input(value.shape, name=name)
            given.dtype = value.dtype
            if len(given.dims) != len(value.shape):
                raise ValueError(f"[builder] shape profile of input {name!r}: got shapes of "
                                 f"{len(given.dims)} dimensions, want {len(value.shape)}: "
                                 f"{value.shape}")
            for d, ((low, _, high), size) in enumerate(zip(given.dims, value.shape, strict=True)):
                if size != -1 and not low == high == size:
                    raise ValueError(
                        f"[builder] shape profile of input {name!r}, dimension {d}: got {low} to "
                        f"{high}, want {size} in each shape: the input is {value.shape}, and only "
                        "-1 has a range")
            ranges.append(given)
        return ranges


def _union(choices: list[list[Input]]) -> list[Input]:
    """The smallest ranges that hold every shape profile's; the first one's usual sizes."""
    union = []
    for same in zip(*choices, strict=True):
        lows, opts, highs = zip(*(zip(*i.dims, strict=True) if i.dims else ((), (), ())
                                  for i in same), strict=True)
        union.append(Input(min_shape=[*map(min, zip(*lows, strict=True))], opt_shape=opts[0],
                           max_shape=[*map(max, zip(*highs, strict=True))],
                           dtype=same[0].dtype, name=same[0].name))
    return union


def _resolve(operator: str):
    """The operator (or its overloads) that a name means."""
    namespace, _, rest = operator.partition("::")
    name, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace, None), name, None) if rest else None
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        raise ValueError(f"[builder] no operator {operator!r}; want a name like 'aten::relu' or "
                         "'aten::add.Tensor' (tv.supported_ops() lists them)")
    if not overload:
        return packet
    if overload not in packet.overloads():
        raise ValueError(f"[builder] {namespace}::{name} has no overload {overload!r}; got "
                         f"{packet.overloads()}")
    return getattr(packet, overload)


class _Layer(nn.Module):
    """An operator, so that what it becomes is known by the module's path."""

    def __init__(self, call):
        super().__init__()
        self._call = call

    def forward(self, *args, **kwargs):
        """The operator's results."""
        return self._call(*args, **kwargs)


class _Network(nn.Module):
    """Runs what a Builder collected."""

    def __init__(self, builder: Builder):
        super().__init__()
        self._network = builder
        layers = nn.ModuleDict({layer: _Layer(call) for call, *_, layer in builder._calls})
        self.add_module(_LAYERS, layers)
        for name, (_, tensor) in builder._weights.items():
            self.register_buffer(name, tensor)

    def forward(self, *inputs):
        """The outputs in order."""
        network = self._network
        known = {value.index: tensor
                 for value, tensor in zip(network._inputs.values(), inputs, strict=True)}
        known |= {value.index: getattr(self, name)
                  for name, (value, _) in network._weights.items()}
        for _, args, kwargs, values, layer in network._calls:
            given, named = pytree.tree_map_only(
                Value, lambda v, known=known: known[v.index], (args, kwargs))
            result = getattr(self, _LAYERS)[layer](*given, **named)
            several = isinstance(result, (tuple, list))
            known |= {v.index: r for v, r in zip(values, result if several else [result])}
        return tuple(known[value.index] for value in network._outputs.values())
