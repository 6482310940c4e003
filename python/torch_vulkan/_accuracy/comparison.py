"""tv.compare: how far a compiled model is from the model, layer by layer."""

import importlib.util
import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from .. import onnx as tv_onnx
from .._base import whole_files
from .._base.settings import Settings
from .._native import C
from .._onnx.files import is_array, to_tensor
from .._program.program import Program
from .observing import call, side_by_side

_ADVISED = 3  # layers that are named


@dataclass
class Comparison:
    """What tv.compare found. `print(comparison)` is for people, `to_json` for tools.

    Attributes:
        count: how many inputs were compared.
        layers: of each product and convolution, the most harmful first: {"name", "module",
            "harm", "snr_db", "input_snr_db", "cosine", "max_error"}. SNR is the power of the exact
            result by that of the difference, in decibel; harm is the part of the difference's power
            that the layer adds: 1 / SNR of its result less that of its input. Of ONNX models each
            float tensor: "name" is the tensor's, "node" what makes it, "nodes" what that has become
            in the compiler's graph; and the input's SNR is the lowest of its inputs'.
        results: of each result of the model likewise, without harm.
    """

    count: int
    layers: list[dict] = field(default_factory=list)
    results: list[dict] = field(default_factory=list)

    def excluded(self, layers: int) -> tuple[str, ...]:
        """A value of `autocast_excluded_nodes` that keeps the `layers` most harmful layers in
        floats."""
        names = [name for row in self.layers[:layers] if row["harm"] > 0
                 for name in row.get("nodes", [row.get("module")])]
        return tuple(f"^{re.escape(name)}$" for name in dict.fromkeys(names) if name)

    def to_json(self, path=None) -> str:
        """JSON text; written to `path` where given. Numbers that JSON does not have are text."""
        data = {"format": "torch_vulkan.comparison", "version": 1, "count": self.count,
                "layers": [_plain(row) for row in self.layers],
                "results": [_plain(row) for row in self.results]}
        text = json.dumps(data, indent=1, allow_nan=False)
        if path is not None:
            whole_files.write_text(path, text + "\n", "comparison")
        return text

    def save(self, path) -> None:
        """Writes a picture (.svg): a bar for the harm of each layer, the most harmful first."""
        if Path(path).suffix != ".svg":
            raise ValueError(f"comparison: got a path that ends in {Path(path).suffix!r}, want "
                             ".svg")
        bars = [(max(row["harm"], 0.0), f"{row['name']}  SNR {row['snr_db']:.1f} dB")
                for row in self.layers if not math.isnan(row["harm"])]
        picture = C.bar_picture(f"{len(self.layers)} layers, {self.count} inputs",
                                "harm: what a layer adds to the noise, by the signal", bars)
        whole_files.write_text(path, picture, "comparison")

    def __str__(self) -> str:
        width = max([len(row["name"]) for row in [*self.layers, *self.results]], default=0)
        lines = [f"{self.count} inputs",
                 f"{'layer':<{width}}       harm  SNR (dB)  of input     cosine  max error"]
        lines += [f"{row['name']:<{width}} {row['harm']:>10.3g} {row['snr_db']:>9.1f} "
                  f"{row['input_snr_db']:>9.1f} {row['cosine']:>10.6f} {row['max_error']:>10.3g}"
                  for row in self.layers]
        lines += [f"{row['name']:<{width}} {'':>10} {row['snr_db']:>9.1f} {'':>9} "
                  f"{row['cosine']:>10.6f} {row['max_error']:>10.3g}" for row in self.results]
        advised = self.excluded(_ADVISED)
        if advised:
            lines.append(f"In floats the worst would be with autocast_excluded_nodes={advised!r}")
        return "\n".join(lines)


def compare(model, program, inputs: Iterable, *, reference: str | None = None) -> Comparison:
    """Runs a module in PyTorch and as it is compiled, and compares what its products and
    convolutions compute; or an ONNX model exactly and as it is compiled, every float tensor.

    The model is compiled once more, so that results of layers can be seen: what is fused over them
    in the program is not fused there.

    Args:
        model: a module in eval mode; or an ONNX model: a path, bytes, or a ModelProto.
        program: what tv.compile (of ONNX models tv.onnx.compile) made of it, or a dict of settings
            to compile it with, of ONNX models also of its other arguments.
        inputs: of each a tensor, a tuple or list of arguments, or a dict of keywords; of ONNX
            models arrays, too.
        reference: what an ONNX model is compared with: "onnxruntime", or "torch_vulkan", an engine
            of the model's own types that is built without tuning. None: the first where it is
            installed.

    Raises:
        ValueError: no inputs, a module in training mode, or a bad setting.
    """
    if not isinstance(model, nn.Module):
        return _compare_file(model, program, inputs, reference)
    if reference is not None:
        raise ValueError("tv.compare: reference: a module is compared with PyTorch")
    if model.training:
        raise ValueError("tv.compare: model: want a torch.nn.Module in eval mode")
    if isinstance(program, Program):
        settings = program.settings
    elif isinstance(program, Mapping):
        settings = Settings.from_options(program)
    else:
        raise ValueError(f"tv.compare: program: got {type(program).__name__}, want what tv.compile "
                         "returned, or a dict of settings")
    found: dict[tuple[str, str], _Differences] = {}

    def see(kind, name, want, got):
        found.setdefault((kind, name), _Differences()).add(want, got)

    count, modules = 0, {}
    with side_by_side(model, settings, see, modules) as run:
        for item in inputs:
            call(run, item)
            count += 1
    if not count:
        raise ValueError("tv.compare: inputs: there are none")
    return _comparison(count, found, modules)


def _compare_file(model, program, data: Iterable, reference: str | None) -> Comparison:
    if not isinstance(model, (str, bytes, os.PathLike)) and not hasattr(model, "SerializeToString"):
        raise ValueError(f"tv.compare: model: got {type(model).__name__}, want a torch.nn.Module, "
                         "or a path, bytes or ModelProto of an ONNX model")
    if isinstance(program, tv_onnx.Model):
        compiled, exactly = program.compiled_again, program.compiled_exactly
    elif isinstance(program, Mapping):
        def compiled(proto):
            return tv_onnx.compile(proto, **program)

        def exactly(proto):
            given = {name: program[name] for name in ("inputs", "constants", "fallback", "device")
                     if name in program}
            return tv_onnx.compile(proto, **given, **tv_onnx.EXACT)
    else:
        raise ValueError(f"tv.compare: program: got {type(program).__name__}, want what "
                         "tv.onnx.compile returned, or a dict of settings")
    if importlib.util.find_spec("onnx") is None:
        raise ValueError("tv.compare: ONNX models need the package onnx: "
                         "pip install torch-vulkan[onnx]")
    from .._onnx import comparing

    kind = comparing.reference_named(reference)
    shown = comparing.Shown(model)
    engines = compiled(shown.proto)
    exact = comparing.session_of(shown) if kind == "onnxruntime" else exactly(shown.proto)
    names = list(dict.fromkeys([*shown.tensors, *shown.results]))
    found = {name: _Differences() for name in names}
    count = 0
    for item in data:
        feed = comparing.feed_of([arg.name for arg in engines.get_inputs()], item)
        for name, want, got in zip(names, exact.run(names, feed), engines.run(names, feed),
                                   strict=True):
            found[name].add_arrays(want, got)
        count += 1
    if not count:
        raise ValueError("tv.compare: inputs: there are none")
    return _comparison_of_file(count, shown, found)


def _comparison_of_file(count: int, shown, found: dict[str, "_Differences"]) -> Comparison:
    made = Comparison(count)
    for name, (node, read) in shown.tensors.items():
        noises = [found[one].noise() for one in read]
        before = math.nan if any(map(math.isnan, noises)) else max(noises, default=0.0)
        noise = found[name].noise()
        made.layers.append({"name": name, "node": node, "nodes": shown.nodes[name],
                            "harm": 0.0 if noise == before else noise - before,
                            **found[name].row(), "input_snr_db": _decibel(before)})
    made.layers.sort(key=lambda row: -math.inf if math.isnan(row["harm"]) else -row["harm"])
    made.results += [{"name": name, **found[name].row()} for name in shown.results]
    return made


def _comparison(count: int, found: dict[tuple[str, str], "_Differences"],
                modules: Mapping[str, str]) -> Comparison:
    made = Comparison(count)
    for (kind, name), after in found.items():
        if kind == "result":
            made.results.append({"name": f"result {name}", **after.row()})
        elif kind == "layer":
            before = found["input", name]
            path, number = _POINT.match(name).groups(default="")
            made.layers.append({"name": (path or "product") + number, "module": modules[name],
                                "harm": after.noise() - before.noise(), **after.row(),
                                "input_snr_db": before.snr_db()})
    made.layers.sort(key=lambda row: -math.inf if math.isnan(row["harm"]) else -row["harm"])
    return made


# The name of a point: its weight's, and a number where that has several.
_POINT = re.compile(r"^(?:(.*)\.)?input(\.\d+)?$")


class _Differences:
    """Of a tensor, over all inputs."""

    def __init__(self):
        self._exact = self._noise = self._made = self._both = self._max = 0.0

    def add(self, want: torch.Tensor, got: torch.Tensor) -> None:
        want, got = want.detach().double(), got.detach().to(want.device).double()
        difference = got - want
        self._exact += want.square().sum().item()
        self._made += got.square().sum().item()
        self._noise += difference.square().sum().item()
        self._both += (want * got).sum().item()
        if difference.numel():
            most = difference.abs().max().item()
            self._max = most if math.isnan(most) else max(self._max, most)

    def add_arrays(self, want, got) -> None:
        """Of arrays; what is no number, as a string, is left out."""
        if is_array(want) and want.dtype.kind in "fiubV":
            self.add(to_tensor("", want), to_tensor("", got))

    def noise(self) -> float:
        """The difference's power by that of the exact tensor."""
        if self._noise == 0:
            return 0.0
        return self._noise / self._exact if self._exact else math.inf

    def snr_db(self) -> float:
        return _decibel(self.noise())

    def row(self) -> dict:
        lengths = math.sqrt(self._exact) * math.sqrt(self._made)
        cosine = self._both / lengths if lengths else float(self._noise == 0)
        return {"snr_db": self.snr_db(), "cosine": min(cosine, 1.0), "max_error": self._max}


def _decibel(noise: float) -> float:
    if noise in (0, math.inf):
        return math.inf if noise == 0 else -math.inf
    return -10 * math.log10(noise)


def _plain(row: dict) -> dict:
    return {key: value if isinstance(value, (str, list)) or math.isfinite(value) else str(value)
            for key, value in row.items()}
