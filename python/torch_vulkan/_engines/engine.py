"""Stand-alone engines: a .vke file, run on tensors or NumPy arrays."""

import ctypes
import json
import math
import os
import threading
import warnings
from collections.abc import Mapping, Sequence

import torch

from .._base import given_outputs, whole_files, written_inputs
from .._base.dtypes import DTYPES
from .._base.stored_conditions import stored
from .._native import C

try:
    import numpy
except ImportError:  # torch itself can do without
    numpy = None

# Where a kernel hangs the device, each opening would cost a watchdog's time.
_MOST_OPENINGS = 3

# Called with the engine and its inputs after each run: tv.profile's.
run_watchers: list = []


def _prepared(parts, tensors) -> list:
    """(part, its set of these weights) of each."""
    return [(part, part.prepare_weights([_address(t) for t in tensors])) for part in parts]


class Engine:
    """An engine, loaded on a device.

    Args:
        vke: the bytes of a .vke file. An engine is code: use `check_addresses` for a file that you
            do not trust.
        device: index, part of a name or UUID; None: the best device.
        check_addresses: rewrites the kernels so that they touch only their operands and their loops
            end, which makes them slower. A call in which a kernel violates that raises ValueError,
            and so does loading a kernel that cannot be bounded (docs/deployment.md, "What to
            trust").
        weight_budget: as the setting has it (docs/settings.md).
    """

    def __init__(self, vke: bytes, device: int | str | None = None, check_addresses: bool = False,
                 weight_budget: int = -1):
        self._vke = bytes(vke)
        self._loading = ("" if device is None else str(device), check_addresses, weight_budget)
        self._parts = self._load()
        self._info = self._parts[0].info()
        self._weights = None  # tensors, and for each part (it, its weight set)
        self._refitting = threading.Lock()
        self._lost = 0  # how often, since a call was done
        self._conditions = None
        self._partial = [None] * len(self._info["weights"])  # of a stripped engine
        stored = C.vke_weights(split_vke(self._vke)[0])
        if stored or not self._info["weights"]:
            self._set_weights([torch.frombuffer(bytearray(data), dtype=torch.uint8)
                               if data else torch.empty(0, dtype=torch.uint8) for data in stored])

    def _load(self) -> list:
        """One for each shape profile; the first part of the file has the weights."""
        return [C.load_engine(part, *self._loading) for part in split_vke(self._vke)]

    def _open(self) -> None:
        """Loads the engine again where its device was lost.

        Raises:
            torch.AcceleratorError: that did not help.
        """
        if not self._parts[0].is_lost:
            return
        with self._refitting:
            if not self._parts[0].is_lost:
                return  # another thread has
            if self._lost >= _MOST_OPENINGS:
                raise torch.AcceleratorError(
                    f"[engine] the device was lost {_MOST_OPENINGS} times before a call was done "
                    "and is not opened again: see the driver's own log, and load the engine in a "
                    "new process")
            try:
                parts = self._load()
                weights = self._weights and (self._weights[0], _prepared(parts, self._weights[0]))
            except torch.AcceleratorError:
                self._lost += 1
                raise
            self._lost += 1
            self._parts, self._weights = parts, weights

    def __repr__(self):
        def text(bindings):
            return ", ".join(f"{b['name']}: {b['dtype']}[{', '.join(map(str, b['shape']))}]"
                             for b in bindings)

        return (f"Engine({self.name}: {text(self._info['inputs'])} -> "
                f"{text(self._info['outputs'])}; {len(self._info['layers'])} layers)")

    @classmethod
    def load(cls, path: str | os.PathLike, device: int | str | None = None,
             check_addresses: bool = False, weight_budget: int = -1) -> "Engine":
        """Reads a .vke file.

        Args:
            path: the file.
            device: as `Engine` has it.
            check_addresses: as `Engine` has it.
            weight_budget: as `Engine` has it.

        Raises:
            ValueError: the file is damaged, or is something else.
            OSError: the file cannot be read.
        """
        if os.path.isdir(path):
            raise IsADirectoryError(f"{os.fspath(path)} is a directory, want a .vke file")
        with open(path, "rb") as file:
            data = file.read()
        try:
            return cls(data, device, check_addresses, weight_budget)
        except ValueError as error:
            hint = ": tv.load reads programs" if data[:2] == b"PK" else ""
            raise ValueError(f"{error} (in {os.fspath(path)}){hint}") from None

    @property
    def name(self) -> str:
        """The engine's name, in tables of times, messages and logs."""
        return self._info["name"]

    def info(self) -> dict:
        """Describes the engine, as data that can be written as JSON.

        Returns:
            A dict with the bindings (`inputs`, `outputs`, `weights`: name, dtype, shape, strides),
            `layers` with their tactics, `profiles` (the range of each symbol in each), and `memory`
            in bytes: of the weights as they were given, of what the device holds of them
            (`weights_held`; tensors that it reads where they are do not count), what host memory
            holds because it is streamed (`weights_streamed`) and the device memory that this passes
            through (`slots`), all three None until they are set; and of the activations at the opt
            and at the largest sizes (None if sizes are unbounded).
        """
        infos = [part.info() for part in self._parts]
        held = self._weights and [part.weight_memory(of_part) for part, of_part
                                  in self._weights[1]]
        memory = {"weights": sum(math.prod(w["shape"]) * DTYPES[w["dtype"]].itemsize
                                 for w in self._info["weights"]),
                  "weights_held": held and sum(each["device"] for each in held),
                  "weights_streamed": held and sum(each["host"] for each in held),
                  "slots": held and max(each["slots"] for each in held),
                  "activations": [self._activations(*pair, "opt")
                                  for pair in zip(self._parts, infos)],
                  "activations_max": [self._activations(*pair, "max")
                                      for pair in zip(self._parts, infos)]}
        profiles = [info["symbols"] for info in infos]
        return _plain({**self._info, "profiles": profiles, "memory": memory})

    @staticmethod
    def _activations(part, info, which) -> int | None:
        sizes = [symbol[which] for symbol in info["symbols"]]
        if None in sizes or (sizes := part.fulfilling(sizes)) is None:
            return None
        return part.arena_bytes(sizes)

    def save(self, path: str | os.PathLike, strip_weights: bool = False) -> None:
        """Writes the .vke file, with the conditions on sizes, and with the weights if they are set,
        unless `strip_weights`. It is written to a temporary file and renamed, so a reader never
        sees half of it."""
        addresses = []
        if self._weights is not None and not strip_weights:
            addresses = [_address(t) for t in self._weights[0]]
        first, *others = self._with_conditions()
        data = C.vke_with_weights(first, addresses) + b"".join(others)
        with whole_files.written(path, "Engine.save") as file:
            file.write(data)

    def _with_conditions(self) -> list[bytes]:
        """The files of the engine."""
        files = split_vke(self._vke)
        if self._conditions is None:
            return files
        made, lost = [], []
        for part, file in zip(self._parts, files, strict=True):
            info = part.info()
            conditions, missing = stored(self._conditions, info["inputs"], info["symbols"])
            made.append(C.vke_with_conditions(file, conditions))
            lost += missing
        for text in dict.fromkeys(lost):
            warnings.warn(f"torch_vulkan: the file of engine {self.name!r} does not hold that its "
                          f"sizes have to fulfil {text}: give it no others", stacklevel=3)
        return made

    def set_conditions(self, conditions) -> None:
        """Conditions on input sizes, beside their ranges (conditions.Conditions)."""
        self._conditions = conditions

    def set_weights(self, weights: Mapping[str, object] | Sequence[object]) -> None:
        """Copies weights, given by name or in the order of `info()["weights"]`."""
        bindings = self._info["weights"]
        if isinstance(weights, Mapping):
            weights = [_named(weights, binding["name"], "weight") for binding in bindings]
        if len(weights) != len(bindings):
            raise ValueError(f"weights: got {len(weights)}, want {len(bindings)}")
        self._open()
        with self._refitting:
            self._set_weights([_weight(w, binding) for w, binding in zip(weights, bindings)])

    def refit(self, weights: Mapping[str, object]) -> None:
        """Replaces weights, in time proportional to the bytes that change. Weights that are not
        named stay, so a stripped engine may be completed by several calls. After an error nothing
        has changed. Calls in other threads see either the old weights or the new ones.

        Args:
            weights: name → tensor or array, of the weight's shape and dtype.

        Raises:
            ValueError: a name is unknown, or a dtype or shape is not the engine's.
        """
        bindings = self._info["weights"]
        positions = {binding["name"]: i for i, binding in enumerate(bindings)}
        unknown = [name for name in weights if name not in positions]
        if unknown:
            raise ValueError(f"engine {self.name!r} has no weight {unknown[0]!r}; it has "
                             f"{sorted(positions)}")
        changed = {positions[name]: _weight(value, bindings[positions[name]])
                   for name, value in weights.items()}
        self._open()
        with self._refitting:
            self._put(changed)

    def _put(self, changed: dict[int, torch.Tensor]) -> None:
        tensors = [changed.get(i, old) for i, old in enumerate(self._tensors())]
        if self._weights is not None:
            prepared = [(part, part.update_weights(old, [_address(t) for t in tensors],
                                                   sorted(changed)))
                        for part, old in self._weights[1]]
            self._weights = (tensors, prepared)
        elif all(t is not None for t in tensors):
            self._set_weights(tensors)
        else:
            self._partial = tensors

    def missing_weights(self) -> list[str]:
        """Names of the weights that must be set before the engine can run."""
        return [binding["name"] for binding, tensor in zip(self._info["weights"], self._tensors())
                if tensor is None]

    def _tensors(self):
        return self._weights[0] if self._weights is not None else self._partial

    def _set_weights(self, tensors):
        # The set may read the tensors' memory.
        self._weights = (tensors, _prepared(self._parts, tensors))

    def run(self, inputs: Mapping[str, object] | Sequence[object],
            out: Mapping[str, object] | Sequence[object] | None = None) -> dict[str, object]:
        """Runs the engine. Inputs that are its state (`written` in `info()`) hold their new values
        afterwards: they are written in place where they are dense, aligned and on the CPU.

        Args:
            inputs: tensors or NumPy arrays, by name or in order.
            out: tensors or arrays to write results to, by name (some of them) or in order; they are
                returned in place of new ones.

        Returns:
            name → result, of the same kind as the inputs.

        Raises:
            ValueError: an input is missing, or the dtype or shape of an input, or of one of `out`,
                does not fit, or one that is written cannot be. Nothing has run then.
            torch.AcceleratorError: the device was lost; the next call opens it anew. What the call
                was to write is void.
        """
        arrays, tensors, part, symbols, outputs = self._bound(inputs)
        bindings = self._info["inputs"]
        given = [inputs[b["name"]] for b in bindings] if isinstance(inputs, Mapping) else inputs
        tensors = written_inputs.own_memory(bindings, given, tensors)
        given_out = given_outputs.checked(out, outputs)
        for name, (_, tensor) in given_out.items():
            if given_outputs.is_direct(tensor, outputs[name], tensors):
                outputs[name] = tensor
        written_inputs.announce(bindings, given, tensors)
        held = self._weights  # with the tensors, whose memory is read: another thread may refit
        engine, weights = held[1][part]
        engine.run(weights, symbols, [_address(t) for t in tensors],
                   [_address(t) for t in outputs.values()])
        self._lost = 0
        written_inputs.write_back(bindings, given, tensors)
        for watch in run_watchers:
            watch(self, inputs)
        if arrays:
            results = {name: t.numpy() for name, t in outputs.items()}
        else:
            device = next((t.device for t in given if not t.is_cpu), None)
            results = {name: t if device is None else t.to(device) for name, t in outputs.items()}
        for name, (value, tensor) in given_out.items():
            if tensor is not outputs[name]:
                tensor.copy_(outputs[name])
            results[name] = value
        return results

    def profile(self, inputs: Mapping[str, object] | Sequence[object], runs: int = 20
                ) -> list[dict]:
        """Times each layer by the device's own clock, alone between barriers. No input changes.

        Returns:
            One dict for each dispatch, in order: that of `info()["layers"]` with `time_us`, the
            median over the runs (0 if it had nothing to do), `mean_us`, and `bytes` of its
            operands.

        Raises:
            ValueError: as `run` does.
            UnsupportedError: the device has no timestamps.
        """
        if runs < 1:
            raise ValueError(f"runs: got {runs}, want at least 1")
        _, tensors, part, symbols, outputs = self._bound(inputs)
        tensors = [t.clone() if binding["written"] else t
                   for binding, t in zip(self._info["inputs"], tensors, strict=True)]
        held = self._weights
        engine, weights = held[1][part]
        times = engine.profile(weights, symbols, [_address(t) for t in tensors],
                               [_address(t) for t in outputs.values()], runs)
        self._lost = 0
        return [{**_plain(layer), "time_us": median, "mean_us": mean, "bytes": count} for
                layer, (median, mean, count) in zip(engine.info()["layers"], times, strict=True)]

    def picture(self) -> str:
        """The layers and the data between them, drawn as SVG."""
        return C.engine_picture(split_vke(self._vke)[0])

    def stats(self) -> dict:
        """Counts since the engine was loaded: `contexts` (the most calls at one time), `recordings`
        (one for each new shape or new memory), `recording_us` (host time of the calls that
        recorded, from their start to the submission, in microseconds), `submissions` (to the
        device's queue)."""
        stats = [part.stats() for part in self._parts]
        return {name: sum(each[name] for each in stats) for name in stats[0]}

    def _bound(self, inputs):
        self._open()
        bindings = self._info["inputs"]
        if self._weights is None:
            missing = self.missing_weights()
            raise ValueError(
                f"engine {self.name!r} was saved without its weights and {len(missing)} of "
                f"{len(self._info['weights'])} are still missing ({', '.join(missing[:3])}"
                f"{', …' if len(missing) > 3 else ''}); call refit or set_weights first")
        if isinstance(inputs, Mapping):
            inputs = [_named(inputs, binding["name"], "input") for binding in bindings]
        if len(inputs) != len(bindings):
            raise ValueError(f"inputs: got {len(inputs)}, want {len(bindings)}")
        arrays = any(_is_array(value) for value in inputs)
        tensors = [_tensor(v, binding) for v, binding in zip(inputs, bindings)]
        if self._conditions is not None:
            self._conditions.check_named({b["name"]: t for b, t in zip(bindings, tensors)})
        part, symbols = self._part_for([list(t.shape) for t in tensors])
        outputs = {}
        for binding in self._info["outputs"]:
            shape, strides = ([_value(d, symbols) for d in binding[key]]
                              for key in ("shape", "strides"))
            outputs[binding["name"]] = torch.empty_strided(shape, strides,
                                                           dtype=DTYPES[binding["dtype"]])
        return arrays, tensors, part, symbols, outputs

    def _part_for(self, shapes) -> tuple[int, list[int]]:
        """The shape profile whose opt sizes are nearest, and the values of its symbols."""
        found, refusals = [], []
        for i, part in enumerate(self._parts):
            try:
                symbols = part.bind_shapes(shapes)
            except ValueError as error:
                refusals.append(error)
                continue
            usual = [symbol["opt"] for symbol in part.info()["symbols"]] if (
                len(self._parts) > 1) else []
            away = sum(abs(math.log2((size + 1) / (opt + 1))) for size, opt in zip(symbols, usual))
            found.append((away, i, symbols))
        if not found and len(refusals) > 1:
            raise ValueError(f"engine {self.name!r}: no shape profile takes these shapes: "
                             + "; ".join(f"shape profile {i}: {error}"
                                         for i, error in enumerate(refusals)))
        if not found:
            raise refusals[0]
        _, i, symbols = min(found)
        return i, symbols


def split_vke(data: bytes) -> list[bytes]:
    """The files in a .vke: one for each shape profile (runtime/spec/vke_parts.h)."""
    return C.split_vke(data)


def _is_array(value) -> bool:
    return numpy is not None and isinstance(value, numpy.ndarray)


def _named(mapping, name, what):
    if name not in mapping:
        raise ValueError(f"{what} {name!r} is missing; got {sorted(mapping)}")
    return mapping[name]


def _weight(value, binding) -> torch.Tensor:
    tensor = _tensor(value, binding)
    if list(tensor.shape) != binding["shape"]:
        raise ValueError(f"weight {binding['name']!r}: got shape {list(tensor.shape)}, "
                         f"want {binding['shape']}")
    return tensor.clone()


def _value(dim, symbols) -> int:
    return dim if isinstance(dim, int) else dim.eval(symbols)


def _tensor(value, binding) -> torch.Tensor:
    tensor = torch.from_numpy(value) if _is_array(value) else value
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"{binding['name']!r}: got {type(value).__name__}, want a tensor or array")
    if tensor.is_floating_point() and tensor.dtype.itemsize == 1:
        tensor = tensor.view(torch.uint8)  # engines hold their codes
    if tensor.dtype != DTYPES[binding["dtype"]]:
        raise ValueError(f"{binding['name']!r}: got {tensor.dtype}, want {binding['dtype']}")
    tensor = tensor.detach().resolve_neg().cpu().contiguous()
    return tensor if tensor.data_ptr() % 16 == 0 else tensor.clone()


def tensor_bytes(tensor: torch.Tensor) -> bytes:
    """The bytes of a contiguous CPU tensor."""
    return ctypes.string_at(tensor.data_ptr(), tensor.nbytes) if tensor.numel() else b""


def _plain(value):
    """A value as JSON has it: expressions as texts."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, C.Expr) else value


def _address(tensor: torch.Tensor) -> tuple[int, int]:
    return tensor.data_ptr(), tensor.nbytes


def built_elsewhere(engines, profile) -> str | None:
    """A message about the first of these torch objects that does not run on the device; None if all
    do."""
    infos = [C.vke_info(file) for engine in engines
             for file in split_vke(tensor_bytes(engine.vke()))]
    wrong = next((info for info in infos if info["runs_on"] != profile.runs_on()), None)
    if wrong is None:
        return None
    theirs, ours = _difference(wrong["runs_on"], profile.runs_on())
    return (f"was built for {_device_name(wrong['tuned_for'])} ({theirs}), which is another kind "
            f"of device than {_device_name(profile.tuned_for())} ({ours})")


def _difference(theirs: str, ours: str) -> tuple[str, str]:
    """What differs between two fingerprints, on either side."""
    a, b = json.loads(theirs), json.loads(ours)
    names = [name for name in sorted(a.keys() | b.keys()) if a.get(name) != b.get(name)]

    def shown(value):
        return f"{len(value)} kinds" if isinstance(value, list) else json.dumps(value)

    return tuple(", ".join(f"{name} {shown(side.get(name))}" for name in names) for side in (a, b))


def _device_name(tuned_for: str) -> str:
    fields = json.loads(tuned_for)
    return f"{fields['name']}, driver {fields['driver_name']} {fields['driver_info']}"
