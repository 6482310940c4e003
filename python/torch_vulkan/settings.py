"""The user's settings: names, checks, and what other backends call them (docs/settings.md)."""

import dataclasses
import difflib
import json
import math
import os
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ._native import C

_LOW_PRECISIONS = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Settings:
    """Checked settings; `from_options` makes them. docs/settings.md says what each one does."""

    device: int | str | None = None
    min_block_size: float = 5
    torch_executed_ops: tuple[str, ...] = ()
    require_full_compilation: bool = False
    pass_through_build_failures: bool = False
    truncate_long_and_double: bool = False
    enabled_precisions: frozenset[torch.dtype] | None = None
    enable_autocast: bool = False
    autocast_low_precision_type: torch.dtype | None = None
    autocast_excluded_nodes: tuple[str, ...] = ()
    autocast_excluded_ops: tuple[str, ...] = ()
    use_explicit_typing: bool = True
    use_python_runtime: bool | None = None
    use_fp32_acc: bool = True
    disable_tf32: bool = True
    optimization_level: int = dataclasses.field(default_factory=lambda: _default_level())
    workspace_size: int = 0
    cache_built_engines: bool = True
    reuse_cached_engines: bool = True
    engine_cache_dir: str | None = None
    engine_cache_size: int = 5 << 30
    timing_cache_path: str | None = None
    immutable_weights: bool = False
    dryrun: bool | str = False
    debug: bool | str = False
    progress: bool | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, Any] | None) -> "Settings":
        """Raises ValueError for an unknown name or a bad value, saying what is allowed."""
        options = dict(options or {})
        values = {name: _checked(name, value) for name, value in options.items()}
        settings = cls(**values)
        settings._check_together(options)
        if settings.use_python_runtime is not None:
            warnings.warn(
                "torch_vulkan: use_python_runtime has no effect, the runtime is C++", stacklevel=3)
        return settings

    def _check_together(self, given: Mapping[str, Any]) -> None:
        low = self.enabled_precisions and not self.enabled_precisions.isdisjoint(_LOW_PRECISIONS)
        if "use_explicit_typing" in given and self.use_explicit_typing and (
                low or self.enable_autocast):
            raise ValueError(
                "use_explicit_typing=True says that the dtypes are the graph's, enabled_precisions "
                "and enable_autocast change them; got both, want one")
        if not self.use_explicit_typing and not self.enabled_precisions:
            raise ValueError(
                "use_explicit_typing=False needs enabled_precisions, e.g. "
                "{torch.float32, torch.float16}")
        if self.autocast_low_precision_type and not self.enable_autocast:
            raise ValueError("autocast_low_precision_type needs enable_autocast=True")
        excluded = self.autocast_excluded_nodes or self.autocast_excluded_ops
        if excluded and self.low_precision is None:
            raise ValueError(
                "autocast_excluded_nodes and autocast_excluded_ops need enable_autocast=True or "
                "enabled_precisions with a 16-bit dtype")

    def replaced(self, **changes) -> "Settings":
        """The same with some checked values changed."""
        return dataclasses.replace(self, **changes)

    def to_json(self) -> dict:
        """What changes the program that is compiled, JSON-able: paths and what is printed are this
        machine's and left out."""
        kept = {name: getattr(self, name) for name in _KEPT_IN_FILES}
        kept = {name: value for name, value in kept.items()
                if value != _FIELDS[name].default}
        return {name: _plain_value(value) for name, value in kept.items()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Settings":
        """The inverse; names that this version does not know are left out."""
        known = {name: value for name, value in values.items() if name in _KEPT_IN_FILES}
        for name in ("enabled_precisions", "autocast_low_precision_type"):
            if name in known:
                known[name] = _dtypes(known[name])
        return cls.from_options(known)

    @property
    def low_precision(self) -> torch.dtype | None:
        """The 16-bit dtype that float32 nodes are stored in; None: the graph's dtypes stay."""
        if self.enable_autocast:
            return self.autocast_low_precision_type or torch.float16
        for dtype in _LOW_PRECISIONS:
            if self.enabled_precisions and dtype in self.enabled_precisions:
                return dtype
        return None

    @property
    def cache_dir(self) -> str:
        """Where compiled kernels are kept; "" where the cache is off."""
        if not (self.cache_built_engines and self.reuse_cached_engines):
            return ""
        return self.engine_cache_dir or C.default_cache_dir()

    @property
    def builds_nothing(self) -> bool:
        """True where only the report is wanted."""
        return bool(self.dryrun) or math.isinf(self.min_block_size)

    @property
    def timing_file(self) -> str:
        """Where timings of tactics are kept; "" where they are not."""
        in_cache = f"{self.cache_dir}/timings.json" if self.cache_dir else ""
        return self.timing_cache_path or in_cache

    def compiler_json(self, debug_dir: str = "") -> str:
        """What the compiler reads, as JSON."""
        # Whole-graph compilation takes blocks of any size: what is in the way is something else.
        size = 1 if self.require_full_compilation else self.min_block_size
        return json.dumps({
            "min_block_size": "inf" if math.isinf(size) else size,
            "torch_executed_ops": list(self.torch_executed_ops),
            "truncate_long_and_double": self.truncate_long_and_double,
            "use_fp32_acc": self.use_fp32_acc,
            "disable_tf32": self.disable_tf32,
            "optimization_level": self.optimization_level,
            "workspace_size": self.workspace_size,
            "cache_dir": self.cache_dir,
            "timing_cache_path": self.timing_file,
            "debug_dir": debug_dir,
        })


def _wrong(name: str, value: Any, want: str) -> ValueError:
    return ValueError(f"setting {name}: got {value!r}, want {want}")


def _default_level() -> int:
    variable = "TORCH_VULKAN_OPTIMIZATION_LEVEL"
    text = C.env(variable) or "3"
    if text not in {"0", "1", "2", "3", "4", "5"}:
        raise ValueError(f"environment variable {variable}: got {text!r}, want 0 to 5")
    return int(text)


def _boolean(name, value):
    if isinstance(value, bool):
        return value
    raise _wrong(name, value, "True or False")


def _optional_boolean(name, value):
    return None if value is None else _boolean(name, value)


def _integer(low: int, high: int | None, unit: str = "") -> Callable[[str, Any], int]:
    def check(name, value):
        in_range = isinstance(value, int) and not isinstance(value, bool) and value >= low and (
            high is None or value <= high)
        if in_range:
            return value
        upper = "up" if high is None else f"to {high}"
        raise _wrong(name, value, f"an integer from {low} {upper}{unit}")
    return check


def _device(name, value):
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise _wrong(name, value, "an index into tv.devices(), part of a name, a UUID, or None")


def _block_size(name, value):
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if number and value >= 1 and (math.isinf(value) or value == int(value)):
        return value
    raise _wrong(name, value, "an integer from 1 up, or math.inf to build nothing")


def _operator_name(name, item) -> str:
    if isinstance(item, torch._ops.OpOverload):
        schema = item._schema
        return schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
    if isinstance(item, torch._ops.OpOverloadPacket):
        return item._qualified_op_name
    if isinstance(item, str) and item:
        text = item.removeprefix("torch.ops.").replace("::", ".").removesuffix(".default")
        parts = text.split(".")
        if len(parts) == 1:
            return f"aten::{parts[0]}"
        return f"{parts[0]}::{'.'.join(parts[1:])}"
    raise _wrong(name, item, "operators: torch.ops.aten.relu, torch.ops.aten.add.Tensor, "
                             "'aten::relu' or 'aten.add.Tensor'")


def _operators(name, value):
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        raise _wrong(name, value, "a collection of operators, e.g. ('aten::relu',)")
    return tuple(sorted({_operator_name(name, item) for item in value}))


def _patterns(name, value):
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        raise _wrong(name, value, "a collection of regular expressions, e.g. ('layer4',)")
    patterns = tuple(value)
    for pattern in patterns:
        try:
            re.compile(pattern)
        except (re.error, TypeError) as error:
            raise _wrong(name, pattern, f"a regular expression ({error})") from None
    return patterns


def _precisions(name, value):
    if value is None:
        return None
    want = "a set of torch.float32, torch.float16 and torch.bfloat16"
    if isinstance(value, (str, torch.dtype)) or not hasattr(value, "__iter__"):
        raise _wrong(name, value, want)
    dtypes = frozenset(value)
    if torch.int8 in dtypes or "int8" in dtypes:
        raise _wrong(name, value, f"{want}; int8 needs a calibrated or quantised model, and "
                                  "quantised operators have no kernels yet")
    if not dtypes or not dtypes <= {torch.float32, *_LOW_PRECISIONS}:
        raise _wrong(name, value, want)
    return dtypes


def _low_precision(name, value):
    if value is None or value in _LOW_PRECISIONS:
        return value
    raise _wrong(name, value, "torch.float16, torch.bfloat16 or None")


def _path(name, value):
    if value is None:
        return None
    if isinstance(value, (str, os.PathLike)) and str(value):
        return str(Path(value).expanduser())
    raise _wrong(name, value, "a path or None")


def _flag_or_path(name, value):
    return value if isinstance(value, bool) else _path(name, value) or False


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "device": _device,
    "min_block_size": _block_size,
    "torch_executed_ops": _operators,
    "require_full_compilation": _boolean,
    "pass_through_build_failures": _boolean,
    "truncate_long_and_double": _boolean,
    "enabled_precisions": _precisions,
    "enable_autocast": _boolean,
    "autocast_low_precision_type": _low_precision,
    "autocast_excluded_nodes": _patterns,
    "autocast_excluded_ops": _operators,
    "use_explicit_typing": _boolean,
    "use_python_runtime": _optional_boolean,
    "use_fp32_acc": _boolean,
    "disable_tf32": _boolean,
    "optimization_level": _integer(0, 5),
    "workspace_size": _integer(0, None, " (bytes; 0: no limit)"),
    "cache_built_engines": _boolean,
    "reuse_cached_engines": _boolean,
    "engine_cache_dir": _path,
    "engine_cache_size": _integer(1, None, " (bytes)"),
    "timing_cache_path": _path,
    "immutable_weights": _boolean,
    "dryrun": _flag_or_path,
    "debug": _flag_or_path,
    "progress": _optional_boolean,
}
_FIELDS = {field.name: field for field in dataclasses.fields(Settings)}
assert set(_CHECKS) == set(_FIELDS)
_KEPT_IN_FILES = ("device", "min_block_size", "torch_executed_ops", "require_full_compilation",
                  "pass_through_build_failures", "truncate_long_and_double", "enabled_precisions",
                  "enable_autocast", "autocast_low_precision_type", "autocast_excluded_nodes",
                  "autocast_excluded_ops", "use_fp32_acc", "disable_tf32", "optimization_level",
                  "workspace_size", "immutable_weights")


def _plain_value(value):
    if isinstance(value, (set, frozenset, tuple)):
        return sorted(map(_plain_value, value))
    return str(value) if isinstance(value, torch.dtype) else value


def _dtypes(value):
    if isinstance(value, list):
        return {_dtypes(item) for item in value}
    return getattr(torch, value.removeprefix("torch."))

# Names that other backends use → what to use here.
_FOREIGN = {
    # Torch-TensorRT
    "precision": "enabled_precisions",
    "max_aux_streams": "nothing: engines use one queue",
    "num_avg_timing_iters": "optimization_level",
    "enable_experimental_decompositions": "nothing: the decompositions follow from what is "
                                          "supported",
    "make_refittable": "nothing: engines are always refittable (immutable_weights=True undoes it)",
    "immutable_weights_engine": "immutable_weights",
    "version_compatible": "nothing: engines check the device they run on",
    "hardware_compatible": "nothing: engines check the device they run on",
    "timing_cache_path_prefix": "timing_cache_path",
    "lazy_engine_init": "nothing: engines are opened when they are built or first called",
    "use_fast_partitioner": "nothing: there is one partitioner",
    "enable_weight_streaming": "workspace_size",
    "enable_cross_compile_for_windows": "nothing: a .vke file does not depend on the system",
    "dla_sram_size": "nothing: there is no DLA",
    "sparse_weights": "nothing: sparsity is not used",
    "refit_identical_engine_weights": "nothing: weights are passed at each call",
    "strip_engine_weights": "nothing: engines hold no weights",
    "assume_dynamic_shape_support": "nothing: every operator takes dynamic shapes",
    "opset_version": "nothing: graphs do not pass through ONNX",
    "enable_tf32": "disable_tf32=False",
    "engine_capability": "nothing",
    "custom_engine_cache": "engine_cache_dir",
    # inductor
    "max_autotune": "optimization_level=5",
    "epilogue_fusion": "nothing: epilogues are always fused",
    "triton.cudagraphs": "nothing: an engine call is one recorded submission",
    "shape_padding": "nothing",
    "fallback_random": "nothing: random numbers are always PyTorch's",
    "freezing": "immutable_weights",
    "trace.enabled": "debug",
    "trace.graph_diagram": "debug",
    "force_disable_caches": "cache_built_engines=False, reuse_cached_engines=False",
    # OpenVINO and ONNX Runtime
    "cache_dir": "engine_cache_dir",
    "model_caching": "cache_built_engines",
    "aot_autograd": "nothing: it is always used",
    "config": "the settings themselves",
    "device_id": "device",
    "providers": "device",
    "enable_profiling": "tv.profile",
    "dynamic": "torch.compile(dynamic=…)",
    "mode": "optimization_level",
}


def _checked(name: str, value: Any) -> Any:
    if name in _CHECKS:
        return _CHECKS[name](name, value)
    known = ", ".join(sorted(_CHECKS))
    if name in _FOREIGN:
        raise ValueError(f"unknown setting {name!r}, another backend's; here: {_FOREIGN[name]}")
    near = difflib.get_close_matches(str(name), _CHECKS, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"unknown setting {name!r}{hint} Allowed: {known}")
