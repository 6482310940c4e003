"""tv.compare: how far a compiled model is from the model, layer by layer."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import nn

from ._base import whole_files
from .observing import call, side_by_side
from .program import Program
from .settings import Settings

_ADVISED = 3  # layers that are named


@dataclass
class Comparison:
    """What tv.compare found. `print(comparison)` is for people, `to_json` for tools.

    Attributes:
        count: how many inputs were compared.
        layers: of each product and convolution, the most harmful first: {"name", "module",
            "harm", "snr_db", "input_snr_db", "cosine", "max_error"}. SNR is the power of the exact
            result by that of the difference, in decibel; harm is the part of the difference's power
            that the layer adds: 1 / SNR of its result less that of its input.
        results: of each result of the model likewise, without harm.
    """

    count: int
    layers: list[dict] = field(default_factory=list)
    results: list[dict] = field(default_factory=list)

    def excluded(self, layers: int) -> tuple[str, ...]:
        """`autocast_excluded_nodes` that keeps so many of the most harmful layers in floats."""
        names = [row["module"] for row in self.layers[:layers] if row["harm"] > 0]
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


def compare(model: nn.Module, program: "Program | Mapping", data: Iterable) -> Comparison:
    """Runs a module in PyTorch and as it is compiled, and compares what its products and
    convolutions compute.

    The module is compiled once more, so that results of layers can be seen.

    Args:
        model: in eval mode.
        program: what tv.compile made of it, or settings to compile it with.
        data: inputs: of each a tensor, a tuple or list of arguments, or a dict of keywords.

    Raises:
        ValueError: no data, a module in training mode, or a bad setting.
    """
    if not isinstance(model, nn.Module) or model.training:
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
        for item in data:
            call(run, item)
            count += 1
    if not count:
        raise ValueError("tv.compare: data has no inputs")
    return _comparison(count, found, modules)


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

    def noise(self) -> float:
        """The difference's power by that of the exact tensor."""
        if self._noise == 0:
            return 0.0
        return self._noise / self._exact if self._exact else math.inf

    def snr_db(self) -> float:
        noise = self.noise()
        if noise in (0, math.inf):
            return math.inf if noise == 0 else -math.inf
        return -10 * math.log10(noise)

    def row(self) -> dict:
        lengths = math.sqrt(self._exact) * math.sqrt(self._made)
        cosine = self._both / lengths if lengths else float(self._noise == 0)
        return {"snr_db": self.snr_db(), "cosine": min(cosine, 1.0), "max_error": self._max}


def _plain(row: dict) -> dict:
    return {key: value if isinstance(value, str) or math.isfinite(value) else str(value)
            for key, value in row.items()}
