"""tv.profile: what each layer of the engines that ran takes."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import torch

from ._native import C
from .engine import tensor_bytes


class Profile:
    """Layers in the order in which they ran, with times of the device's own clock.

    Each layer ran alone, between barriers: what overlaps in a call is counted apart here, so the
    sum is no less than the time of a call.

    Attributes:
        layers: dicts with `engine`, `call`, `name`, `tactic`, `ops`, `module_path`, `source`,
            `time_us` (median), `mean_us` and `bytes` (of the operands).
    """

    def __init__(self):
        self.layers: list[dict] = []

    @property
    def time_us(self) -> float:
        """Sum over the layers."""
        return sum(layer["time_us"] for layer in self.layers)

    def table(self, rows: int | None = None) -> str:
        """The layers that take most, first."""
        return C.layer_table(self.layers, rows or 0)

    def save(self, path) -> None:
        """Writes a Chrome trace (.json) or a picture (.svg), by the name's end."""
        writers = {".json": C.layer_trace, ".svg": C.layer_picture}
        suffix = Path(path).suffix
        if suffix not in writers:
            raise ValueError(f"profile: got a path that ends in {suffix!r}, want .json or .svg")
        Path(path).write_text(writers[suffix](self.layers), encoding="utf-8")

    def _add(self, call: int, vke: torch.Tensor, times: torch.Tensor) -> None:
        info = C.vke_info(tensor_bytes(vke))
        for layer, (median, mean, count) in zip(info["layers"], times.tolist(), strict=True):
            self.layers.append({**layer, "engine": info["name"], "call": call, "time_us": median,
                                "mean_us": mean, "bytes": int(count)})


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
