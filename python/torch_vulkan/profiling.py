"""tv.profile: what each layer of the engines that ran takes."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

import torch

from ._native import C
from .engine import tensor_bytes

_COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1")


class Profile:
    """Layers in the order in which they ran, with times of the device's own clock.

    Each layer ran alone, between barriers: what overlaps in a call is counted apart here, so the
    sum is no less than the time of a call.

    Attributes:
        layers: dicts with `engine`, `call`, `name`, `tactic`, `ops`, `module_path`, `source`,
            `time_us` and `bytes` (of the operands).
    """

    def __init__(self):
        self.layers: list[dict] = []

    @property
    def time_us(self) -> float:
        """Sum over the layers."""
        return sum(layer["time_us"] for layer in self.layers)

    def table(self, rows: int | None = None) -> str:
        """The layers that take most, first."""
        total = self.time_us or 1
        lines = [f"{'time':>10} {'share':>6} {'GB/s':>7}  {'layer':44} tactic"]
        for layer in sorted(self.layers, key=lambda entry: -entry["time_us"])[:rows]:
            time_us = layer["time_us"]
            rate = f"{layer['bytes'] / time_us / 1e3:7.0f}" if time_us else f"{'':7}"
            lines.append(f"{time_us:7.1f} us {time_us / total:6.1%} {rate}  "
                         f"{layer['name'][:44]:44} {layer['tactic']}")
        lines.append(f"{self.time_us:7.1f} us in {len(self.layers)} layers")
        return "\n".join(lines)

    def save(self, path) -> None:
        """Writes a Chrome trace (.json) or a picture (.svg), by the name's end."""
        suffix = Path(path).suffix
        if suffix not in (".json", ".svg"):
            raise ValueError(f"profile: got a path that ends in {suffix!r}, want .json or .svg")
        text = json.dumps(self._trace()) if suffix == ".json" else self._picture()
        Path(path).write_text(text)

    def _trace(self) -> dict:
        events, now = [], 0.0
        for layer in self.layers:
            events.append({"name": layer["name"], "cat": layer["engine"], "ph": "X", "pid": 0,
                           "tid": layer["call"], "ts": now, "dur": layer["time_us"],
                           "args": {key: layer[key] for key in (
                               "tactic", "ops", "module_path", "source", "bytes")}})
            now += layer["time_us"]
        return {"traceEvents": events, "displayTimeUnit": "ns"}

    def _picture(self) -> str:
        row, width = 18, 560
        longest = max((layer["time_us"] for layer in self.layers), default=0) or 1
        tactics = sorted({layer["tactic"] for layer in self.layers})
        lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 460}" '
                 f'height="{row * (len(self.layers) + 1)}" font-family="monospace" font-size="11">']
        for i, layer in enumerate(self.layers):
            y = row * i + 4
            colour = _COLOURS[tactics.index(layer["tactic"]) % len(_COLOURS)]
            text = escape(f"{layer['time_us']:.1f} us  {layer['name']}  {layer['tactic']}")
            lines.append(f'<rect x="4" y="{y}" width="{layer["time_us"] / longest * width:.1f}" '
                         f'height="{row - 4}" fill="{colour}"/>'
                         f'<text x="{layer["time_us"] / longest * width + 10:.1f}" '
                         f'y="{y + 11}">{text}</text>')
        return "\n".join([*lines, "</svg>"])

    def _add(self, call: int, vke: torch.Tensor, times: torch.Tensor) -> None:
        info = C.vke_info(tensor_bytes(vke))
        for layer, (time_us, count) in zip(info["layers"], times.tolist(), strict=True):
            self.layers.append({**layer, "engine": info["name"], "call": call, "time_us": time_us,
                                "bytes": int(count)})


@contextlib.contextmanager
def profile(program=None, runs: int = 20) -> Iterator[Profile]:
    """Times each layer of the engines that are called inside.

        with tv.profile(prog) as p:
            prog(x)
        print(p.table())

    Every call of an engine is then made `runs` more times, layer by layer, through host memory;
    what runs natively is not timed. The profile is complete when the block is left.

    Args:
        program: what is going to be called; only for the reader.
        runs: of which the median is taken.
    """
    if runs < 1:
        raise ValueError(f"profile: got runs={runs}, want at least 1")
    result = Profile()
    ops = torch.ops.torch_vulkan
    ops.take_profiles()
    ops.set_profile_runs(runs)
    try:
        yield result
    finally:
        ops.set_profile_runs(0)
        for call, (vke, times) in enumerate(zip(*ops.take_profiles(), strict=True)):
            result._add(call, vke, times)
