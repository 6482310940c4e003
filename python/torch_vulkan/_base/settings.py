"""Settings as users give them (docs/settings.md)."""

import dataclasses
import hashlib
import inspect
import json
import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from .._native import C
from .raw_bytes import raw_bytes
from .setting_checks import LOW_PRECISIONS, ROWS, checked, of_environment, without_aliases


@dataclass(frozen=True)
class Settings:
    """Checked settings, made by `from_options`. docs/settings.md explains each one."""

    # Of csrc/settings_table.h, as text for type checkers: scripts/settings_page.py writes them.
    # --- fields ---
    device: int | str | None = None
    min_block_size: float = 5
    weight_budget: int = -1
    torch_executed_ops: tuple[str, ...] = ()
    require_full_compilation: bool = False
    pass_through_build_failures: bool = False
    truncate_long_and_double: bool = False
    enabled_precisions: frozenset[torch.dtype] | None = None
    calibration: str = ''
    enable_autocast: bool = False
    autocast_low_precision_type: torch.dtype | None = None
    autocast_excluded_nodes: tuple[str, ...] = ()
    autocast_excluded_ops: tuple[str, ...] = ()
    use_explicit_typing: bool = True
    use_python_runtime: bool | None = None
    use_fp32_acc: bool = True
    disable_tf32: bool = True
    allow_transformed_convolutions: bool = False
    check_indices: bool = True
    matrix_units: bool = True
    optimization_level: int = field(default_factory=lambda: of_environment("optimization_level"))
    tuning_seconds: int = -1
    workspace_size: int = 0
    sparse_weights: bool = False
    cache_built_engines: bool = True
    reuse_cached_engines: bool = True
    engine_cache_dir: str | None = None
    engine_cache_size: int = 5368709120
    timing_cache_path: str | None = None
    immutable_weights: bool = False
    dryrun: bool | str = False
    debug: bool | str = False
    progress: bool | None = None
    background_tuning: bool = False
    # --- end of fields ---

    @classmethod
    def from_options(cls, options: Mapping[str, Any] | None, of_file: bool = False,
                     taken_by: Callable | None = None) -> "Settings":
        """Checked settings.

        Args:
            options: values by name; None: the defaults.
            of_file: the model's file says whether the model is quantised. int8 without a
                calibration is then refused when the model is planned, not here.
            taken_by: the function that takes the options as keywords.

        Raises:
            ValueError: an unknown name or a bad value; the message says what is allowed.
        """
        options = without_aliases(options or {})
        keywords = _keywords(taken_by) if taken_by else ()
        values = {name: checked(name, value, keywords) for name, value in options.items()}
        settings = cls(**values)
        settings._check_together(options)
        if settings.permits_int8 and not settings.calibration and not of_file:
            raise ValueError(
                "enabled_precisions with torch.int8 needs calibration=, which tv.calibrate returns "
                "(models that are quantised themselves need neither)")
        if settings.use_python_runtime is not None:
            warnings.warn(
                "torch_vulkan: use_python_runtime has no effect, the runtime is C++", stacklevel=3)
        return settings

    def _check_together(self, given: Mapping[str, Any]) -> None:
        low = self.permits_int8 or (
            self.enabled_precisions and not self.enabled_precisions.isdisjoint(LOW_PRECISIONS))
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
        C.check_together(self.compiler_json())

    def replaced(self, **changes) -> "Settings":
        """The same with some checked values changed."""
        changed = dataclasses.replace(self, **changes)
        object.__setattr__(changed, "_weights_digest", getattr(self, "_weights_digest", ""))
        return changed

    def to_json(self) -> dict:
        """The settings that change the compiled program, JSON-able. Paths and what is printed
        belong to this machine and are left out."""
        kept = {name: getattr(self, name) for name, row in ROWS.items() if row.saved}
        # A default of the environment's is this machine's: its value is written.
        kept = {name: value for name, value in kept.items()
                if ROWS[name].variable or value != ROWS[name].default}
        return {name: _plain_value(value) for name, value in kept.items()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Settings":
        """The inverse; names that this version does not know are ignored."""
        known = {name: value for name, value in values.items()
                 if name in ROWS and ROWS[name].saved}
        for name in known:
            if ROWS[name].kind in ("Precisions", "LowPrecision"):
                known[name] = _dtypes(known[name])
        # Of libraries that need not be loaded here.
        operators = {name: tuple(known.pop(name)) for name in [*known]
                     if ROWS[name].kind == "Operators"}
        return cls.from_options(known, of_file=True).replaced(**operators)

    @property
    def low_precision(self) -> torch.dtype | None:
        """The 16-bit dtype that float32 nodes are stored in; None: the graph's dtypes stay."""
        name = C.low_precision(self.compiler_json())
        return getattr(torch, name) if name else None

    @property
    def permits_int8(self) -> bool:
        """Whether what `calibration` covers may be computed in int8."""
        return torch.int8 in (self.enabled_precisions or ())

    def _precisions(self) -> list[str]:
        """The dtypes that the compiler is told of: with autocast one of the 16-bit ones."""
        dtypes = set(self.enabled_precisions or ())
        if self.enable_autocast:
            dtypes -= {*LOW_PRECISIONS}
            dtypes.add(self.autocast_low_precision_type or torch.float16)
        return sorted(str(dtype).removeprefix("torch.") for dtype in dtypes)

    def _places(self) -> tuple[str, str, str]:
        """Of engines, of compiled kernels and of timings: paths, or "" where none are kept."""
        given = self._given("cache") | {"engine_cache_dir": self.engine_cache_dir or ""}
        return C.place_caches(json.dumps(given), self.timing_cache_path or "")

    def cache_json(self) -> str:
        """What the engine cache reads, as JSON."""
        return json.dumps(self._given("cache") | {
            "engine_cache_dir": self._places()[0],
            "weights_digest": getattr(self, "_weights_digest", ""),
        })

    def keyed_by(self, tensors: Iterable[torch.Tensor]) -> "Settings":
        """With immutable_weights, settings whose cache key includes the contents of these weights;
        else these settings."""
        if not (self.immutable_weights and (self.cache_built_engines or self.reuse_cached_engines)):
            return self
        digest = hashlib.sha256()
        for tensor in tensors:
            digest.update(f"{tensor.dtype} {[*tensor.shape]} ".encode())
            digest.update(raw_bytes(tensor).numpy())
        keyed = dataclasses.replace(self)
        object.__setattr__(keyed, "_weights_digest", digest.hexdigest())
        return keyed

    @property
    def builds_nothing(self) -> bool:
        """True if only the report is wanted."""
        return bool(self.dryrun) or math.isinf(self.min_block_size)

    @property
    def tunes_in_background(self) -> bool:
        """True if an engine of level 0 answers until the requested one is tuned."""
        return self.background_tuning and self.optimization_level > 0

    def refuse_background_tuning(self, where: str, why: str) -> None:
        """Raises ValueError if background_tuning is set: for callers that build all first."""
        if self.background_tuning:
            raise ValueError(f"{where}: background_tuning is for torch.compile and tv.compile of "
                             f"modules; {why}: leave it out, or set optimization_level=0 for a "
                             "quick build")

    def compiler_json(self, debug_dir: str = "", on_cuda: bool = False) -> str:
        """What the compiler reads, as JSON; `on_cuda`: the graph's tensors are on CUDA."""
        _, kernels, timings = self._places()
        size = self.min_block_size
        return json.dumps(self._given("compiler") | {
            "enabled_precisions": self._precisions(),
            "min_block_size": "inf" if math.isinf(size) else size,
            "on_cuda": on_cuda,
            "cache_dir": kernels,
            "timing_cache_path": timings,
            "debug_dir": debug_dir,
        })

    def _given(self, scope: str) -> dict[str, Any]:
        """The settings that the compiler or the cache reads."""
        return {name: list(value) if isinstance(value := getattr(self, name), tuple) else value
                for name, row in ROWS.items() if row.scope == scope}


def _plain_value(value):
    if isinstance(value, (set, frozenset, tuple)):
        return sorted(map(_plain_value, value))
    return str(value) if isinstance(value, torch.dtype) else value


def _dtypes(value):
    if isinstance(value, list):
        return {_dtypes(item) for item in value}
    return getattr(torch, value.removeprefix("torch."))


def _keywords(function: Callable) -> list[str]:
    """The names by which a function takes arguments that are not settings."""
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in inspect.signature(function).parameters.values() if p.kind in kinds]
