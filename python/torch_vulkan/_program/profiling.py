"""tv.profile: times each layer of the engines that run."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from .. import onnx as tv_onnx
from .._base import whole_files
from .._engines.engine import Engine, run_watchers, tensor_bytes
from .._native import C
from .._script import programs
from .program import Program


class LayerTimes:
    """The timed layers, in the order in which they ran, by the device's own clock.

    Each layer ran alone, between barriers. Layers that overlap in a call are counted separately
    here, so the sum is at least the time of a call.

    Attributes:
        layers: dicts with `engine`, `call`, `name`, `tactic`, `ops`, `module_path`, `source`,
            `time_us` (median), `mean_us` and `bytes` (of the operands).
    """

    def __init__(self, runs: int = 20, wanted: Callable[[object], bool] = lambda called: True):
        self.layers: list[dict] = []
        self._runs, self._wanted, self._calls = runs, wanted, 0

    @property
    def time_us(self) -> float:
        """Sum over the layers, in microseconds."""
        return sum(layer["time_us"] for layer in self.layers)

    def table(self, rows: int | None = None) -> str:
        """A table of the layers as text, the slowest first."""
        return C.layer_table(self.layers, rows or 0)

    def to_json(self, path=None) -> str:
        """The layers as JSON text, with the fields of `vkexec --exportProfile`; also written to
        `path` if it is given."""
        text = C.layer_json(self.layers, self._runs)
        if path is not None:
            whole_files.write_text(path, text, "profile")
        return text

    def save(self, path) -> None:
        """Writes a Chrome trace (.json) or a picture (.svg), depending on the suffix."""
        writers = {".json": C.layer_trace, ".svg": C.layer_picture}
        suffix = Path(path).suffix
        if suffix not in writers:
            raise ValueError(f"profile: got a path that ends in {suffix!r}, want .json or .svg")
        whole_files.write_text(path, writers[suffix](self.layers), "profile")

    def _add(self, layers: list[dict], engine: str) -> None:
        self.layers += [{**layer, "engine": engine, "call": self._calls} for layer in layers]
        self._calls += 1

    def _add_of_torch(self) -> None:
        """Adds the calls of compiled programs since the last time."""
        for vke, times in zip(*torch.ops.torch_vulkan.take_profiles(), strict=True):
            if not self._wanted(vke):
                continue
            info = C.vke_info(tensor_bytes(vke))
            self._add([{**layer, "time_us": median, "mean_us": mean, "bytes": int(count)}
                       for layer, (median, mean, count)
                       in zip(info["layers"], times.tolist(), strict=True)], info["name"])

    def _add_run(self, engine: Engine, inputs) -> None:
        self._add_of_torch()
        if self._wanted(engine):
            self._add(engine.profile(inputs, self._runs), engine.name)


def _engines_of(program) -> Callable[[object], bool]:
    """Whether an engine that was called, or its file, is one of the program's."""
    if isinstance(program, Engine):
        return lambda called: called is program
    if isinstance(program, tv_onnx.Model):  # which may build more while it runs
        return lambda called: any(called is own for own in program.engines)
    held = None
    if isinstance(program, Program):
        held = program.engine_objects().values()
    elif programs.is_script(program):
        held = [engine for engine, *_ in programs.engines_of(program).values()]
    if held is not None:
        engines, before = [*held], [engine.vke() for engine in held]

        def is_own(called) -> bool:
            # (a tuned engine may have taken the place of another meanwhile)
            return isinstance(called, torch.Tensor) and any(
                file.data_ptr() <= called.data_ptr() < file.data_ptr() + file.nbytes
                for file in (*before, *(engine.vke() for engine in engines)))

        return is_own
    if program is not None and not callable(program):
        raise ValueError(f"profile: got {type(program).__name__}, want a compiled program, an "
                         "engine or a session")
    return lambda called: True  # what torch.compile returned has no engines before it is called


@contextlib.contextmanager
def profile(program=None, runs: int = 20) -> Iterator[LayerTimes]:
    """Times each layer of the engines that are called inside the `with`.

        with tv.profile(prog) as p:
            prog(x)
        print(p.table())

    A `tv.Profile` is another thing: a range of shapes that an engine is built for.

    Every call of an engine is repeated `runs` times, layer by layer, through host memory. Native
    operators are not timed. The times are complete when the `with` ends.

    Args:
        program: the program whose engines are timed: of tv.compile, tv.load or tv.onnx.compile, or
            an Engine. None, or what torch.compile returned: every engine that is called.
        runs: number of timed runs; the median counts.
    """
    if runs < 1:
        raise ValueError(f"profile: got runs={runs}, want at least 1")
    result = LayerTimes(runs, _engines_of(program))
    ops = torch.ops.torch_vulkan
    ops.take_profiles()
    ops.set_profile_runs(runs)
    run_watchers.append(result._add_run)
    try:
        yield result
    finally:
        run_watchers.remove(result._add_run)
        ops.set_profile_runs(0)
        result._add_of_torch()
