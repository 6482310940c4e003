"""tv.calibrate: the ranges that int8 has to cover in a network of floats."""

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn
from torch.utils import _pytree as pytree

from .._base import whole_files
from .._base.partial_calibrations import Partial
from .._base.progress import progress_for
from .._base.raw_bytes import raw_bytes
from .._native import C
from .._onnx.files import imported, is_array, ranges, serialized, to_tensor
from .._onnx.observing import Observed
from .observing import call, observed

_METHODS = C.RANGE_METHODS
_SAVED_EVERY_S = 10.0


@dataclass(frozen=True)
class Calibration:
    """The size of an int8 step in each tensor that was observed; made by tv.calibrate, for
    the setting `calibration`.

    Attributes:
        header: the first line of its file, "TRT-101401-EntropyCalibration2".
        scales: name → the largest magnitude to represent / 127; 0 where only zeros were seen.
        smooth_quant: SmoothQuant's alpha; None: without it.
        channel_amax: with SmoothQuant, name → the largest magnitude of each channel.
        channel_means: with bias correction, name → the mean of each channel.
        required: names of tensors whose products and convolutions are computed in int8 even where
            floats are faster; an error where they cannot be.
    """

    header: str
    scales: Mapping[str, float] = field(repr=False)
    smooth_quant: float | None = None
    channel_amax: Mapping[str, list[float]] = field(default_factory=dict, repr=False)
    channel_means: Mapping[str, list[float]] = field(default_factory=dict, repr=False)
    required: Set[str] = frozenset()

    @property
    def amax(self) -> dict[str, float]:
        """name → the largest magnitude to represent."""
        return {name: scale * C.INT8_STEPS for name, scale in self.scales.items()}

    def to_text(self) -> str:
        """As TensorRT's calibration caches have it. What they do not know, of SmoothQuant and bias
        correction, stands behind it in lines that TensorRT takes for tensors of other networks."""
        return C.calibration_text(self.header, list(self.scales.items()), self.smooth_quant,
                                  dict(self.channel_amax), dict(self.channel_means),
                                  {*self.required})

    def save(self, path: str | os.PathLike) -> None:
        """Writes a file."""
        whole_files.write_text(path, self.to_text(), "calibration")

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Calibration":
        """Reads a file: this package's, or one of TensorRT 5 to 10.

        Raises:
            ValueError: it is no calibration cache, of another version, or cut short.
        """
        text = Path(path).read_bytes().decode(errors="replace")
        return _calibration_of(C.read_calibration(text, os.fspath(path)))


def _calibration_of(parts: tuple) -> Calibration:
    """Of what C.read_calibration returns."""
    header, scales, alpha, largest, means, required = parts
    return Calibration(header, dict(scales), alpha, largest, means, frozenset(required))


def calibrate(model, batches: Iterable | None, method: str = "entropy",
              cache: str | os.PathLike | None = None, *, percentile: float = 99.99,
              smooth_quant: bool | float = False, bias_correction: bool = False,
              inputs=None, progress: bool | None = None) -> Calibration:
    """Finds, for the input of each product and convolution of a network, the range that int8 should
    cover, from batches of typical data.

    Methods, of which entropy, percentile and mse read histograms of 2048 bins or more:
        entropy: the least Kullback-Leibler divergence between the distribution in 128 levels and
            that in bins (Migacz, 8-bit inference with TensorRT, GTC 2017, S7310), as TensorRT's
            IInt8EntropyCalibrator2 and ModelOpt's HistogramCalibrator have it.
        percentile: what `percentile` % of the magnitudes do not exceed (Wu et al., Integer
            quantization for deep learning inference, arXiv 2004.09602).
        mse: the least squared error of quantised values (ibid., ModelOpt's "mse").
        minmax: the largest magnitude.

    Args:
        model: a module in eval mode; or an ONNX model: a path, bytes or a ModelProto.
        batches: of each batch a tensor or array, a tuple or list of arguments, or a dict of them by
            name. Read once, and nothing of it is kept.
        method: how ranges are chosen.
        cache: a file for the result. One that exists is read, and no batch is run: remove it to
            calibrate again. Its header is TensorRT's, which has one name for percentile and mse:
            a file of the one, or with another `percentile`, is read for the other too. While
            batches run, `<cache>.partial` keeps what was seen: a call that was interrupted goes on
            behind the batches that it had counted, which must come again in the same order.
        percentile: of the method of that name, above 0, up to 100.
        smooth_quant: SmoothQuant's alpha, from 0 to 1; True: 0.5. Channels of the inputs of
            products are divided by max|X|^alpha / max|W|^(1 - alpha) before they are quantised,
            and weights multiplied with it, so that channels with outliers need not set the range
            of all (Xiao et al., arXiv 2211.10438). Ranges of these inputs are those of the largest
            magnitudes then, whatever `method` says. Convolutions stay as they are.
        bias_correction: what rounding weights takes from the mean of each channel of a result is
            added to the bias (Nagel et al., arXiv 1906.04721, 4.2).
        inputs: of an ONNX model, as tv.onnx.compile takes them.
        progress: show a progress bar; None: where standard error is a terminal.

    Raises:
        ValueError: no data, a batch or an observed tensor that holds NaN or infinities, a module in
            training mode, an unknown method, an alpha out of range, or a cache that is damaged or
            of another method, or that has other such options.
        UnsupportedError: of an ONNX model: no engine takes a node.
    """
    _check_arguments(model, method, percentile)
    alpha = _alpha_of(smooth_quant)
    if not isinstance(bias_correction, bool):
        raise ValueError(f"tv.calibrate: bias_correction={bias_correction!r}, want True or False")
    if cache is not None and Path(cache).exists():
        return _of_cache(cache, method, alpha, bias_correction)
    if batches is None:
        raise ValueError("tv.calibrate: batches=None, and there is no cache to read: want data")
    partial, by_channels = None, alpha is not None or bias_correction
    if cache is not None:
        partial = Partial(os.fspath(cache), _digest(model, inputs), by_channels)
        partial.load()
    seen = _Seen(partial, by_channels)
    with _runner(model, inputs, seen) as run:
        seen.run(run, batches, progress_for("calibrate", progress))
    made = _calibration_of(seen.tensors.calibration(method, percentile, alpha, bias_correction))
    if cache is not None:
        made.save(cache)
        partial.remove()
    return made


def _check_arguments(model, method, percentile) -> None:
    if method not in _METHODS:
        raise ValueError(f"tv.calibrate: method={method!r}, want one of {', '.join(_METHODS)}")
    if isinstance(percentile, bool) or not isinstance(percentile, (int, float)) or not (
            0 < percentile <= 100):
        raise ValueError(f"tv.calibrate: percentile={percentile!r}, want a number above 0, up to "
                         "100")
    if not isinstance(model, (nn.Module, str, os.PathLike, bytes, bytearray, memoryview)) and (
            not hasattr(model, "SerializeToString")):
        raise ValueError(f"tv.calibrate: got {type(model).__name__}, want a torch.nn.Module or an "
                         "ONNX model")
    if isinstance(model, nn.Module) and model.training:
        raise ValueError("tv.calibrate: the module is in training mode, which would change its "
                         "statistics: call .eval() first")


def _alpha_of(smooth_quant) -> float | None:
    """As caches hold it."""
    if isinstance(smooth_quant, bool):
        return 0.5 if smooth_quant else None
    if not isinstance(smooth_quant, (int, float)) or not 0 <= smooth_quant <= 1:
        raise ValueError(f"tv.calibrate: smooth_quant={smooth_quant!r}, want True, False or an "
                         "alpha from 0 to 1")
    return torch.tensor(smooth_quant, dtype=torch.float32).item()


def _of_cache(cache, method: str, alpha: float | None, bias_correction: bool) -> Calibration:
    made = Calibration.load(cache)
    if not C.is_of_method(made.header, method):
        raise ValueError(f"tv.calibrate: {os.fspath(cache)} is of {made.header.split('-', 2)[2]}, "
                         f"method={method!r} makes {C.algorithm_of(method)}: remove it, or give "
                         "another cache")
    if made.smooth_quant != alpha or bool(made.channel_means) != bias_correction:
        raise ValueError(
            f"tv.calibrate: {os.fspath(cache)} has smooth_quant={_told(made.smooth_quant)}, "
            f"bias_correction={bool(made.channel_means)}, want {_told(alpha)} and "
            f"{bias_correction}: remove it, or give another cache")
    return made


def _told(alpha: float | None) -> bool | float:
    return False if alpha is None else alpha


def _digest(model, inputs) -> str:
    """Of the weights and their names; of an ONNX model of the file too."""
    if not isinstance(model, nn.Module):
        is_path = isinstance(model, (str, os.PathLike))
        source = imported(model, {"inputs": ranges(model, inputs), "constants": {}})
        return source.digest(Path(model).read_bytes() if is_path else serialized(model))
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        if isinstance(tensor, torch.Tensor):
            digest.update(f"{name} {tensor.dtype} {[*tensor.shape]} ".encode())
            digest.update(raw_bytes(tensor).numpy())
    return digest.hexdigest()


@contextlib.contextmanager
def _runner(model, inputs, see):
    """Within it: what runs a batch, as the caller gives it."""
    if isinstance(model, nn.Module):
        with observed(model, see) as run:
            yield lambda batch: call(run, batch)
        return
    network = Observed(model, inputs, see)

    def of_file(batch):
        if not isinstance(batch, Mapping):
            values = batch if isinstance(batch, (tuple, list)) else (batch,)
            if len(values) > len(network.inputs):
                raise ValueError(f"tv.calibrate: a batch has {len(values)} values, the model "
                                 f"{len(network.inputs)} inputs: {', '.join(network.inputs)}")
            batch = dict(zip(network.inputs, values, strict=False))
        network(batch)

    yield of_file


class _Seen:
    """What was observed so far; called with a name, a tensor, the dimension of its channels (-1:
    none) and whether it is a product that sums over them.

    Attributes:
        tensors: C.Observations.
    """

    def __init__(self, partial: Partial | None, by_channels: bool):
        self._partial = partial
        going_on = partial is not None and partial.seen is not None
        self.tensors = partial.seen if going_on else C.Observations.empty(by_channels)
        self._done = partial.done if partial else 0
        self._number = 0
        self._calls = 0  # of this object, by the batch
        self._before, self._found = {*self.tensors.names}, set()  # names

    def __call__(self, name: str, tensor: torch.Tensor, channel_dim: int,
                 is_product: bool) -> None:
        self._calls += 1
        self._found.add(name)
        elements = tensor.detach().to("cpu", torch.float32).contiguous()
        try:
            self.tensors.add(name, elements.data_ptr(), [*elements.shape], channel_dim, is_product)
        except ValueError as error:
            raise ValueError(f"tv.calibrate: batch {self._number}: {error}") from None

    def run(self, run: Callable, batches: Iterable, progress) -> None:
        """Runs the batches behind those that were counted before. Raises ValueError where there is
        no data."""
        total = len(batches) if hasattr(batches, "__len__") else 0
        saved, seen = time.monotonic(), self.tensors.copy()
        resumed = self._done
        try:
            for self._number, batch in enumerate(batches):
                if self._number < resumed:
                    continue
                _check_batch(self._number, batch)
                self._calls = 0
                run(batch)
                self._check_calls()
                self._done, seen = self._number + 1, self.tensors.copy()
                if progress:
                    progress(f"batch {self._done}", self._done, total)
                if self._partial and time.monotonic() - saved > _SAVED_EVERY_S:
                    self._partial.save(self._done, seen)
                    saved = time.monotonic()
        except BaseException:
            if self._partial and self._done > resumed:
                self._partial.save(self._done, seen)
            raise
        finally:
            if progress:
                progress.close("calibrated")
        if not self._done:
            raise ValueError("tv.calibrate: batches holds no data")

    def _check_calls(self) -> None:
        """Raises ValueError where nothing of a batch was seen."""
        if not self.tensors.names:
            raise ValueError("tv.calibrate: the model has no product or convolution with constant "
                             "weights, which int8 could be used for")
        if not self._calls:
            raise ValueError(f"tv.calibrate: batch {self._number}: nothing of it was observed: "
                             "PyTorch ran the module without capturing it, or it has no product "
                             "for such data")
        if self._before and self._before.isdisjoint(self._found):
            raise ValueError(f"tv.calibrate: {self._partial.path} is of another model: it has "
                             f"{min(self._before)!r}, this one {min(self._found)!r}: remove it, or "
                             "give another cache")


def _check_batch(number: int, batch) -> None:
    """Raises ValueError where a tensor of it holds NaN, or nothing."""
    for path, leaf in pytree.tree_flatten_with_path(batch)[0]:
        if not isinstance(leaf, torch.Tensor) and not is_array(leaf):
            continue
        tensor = to_tensor("", leaf)
        where = f"tv.calibrate: batch {number}: input {pytree.keystr(path)}".rstrip()
        if tensor.numel() == 0:
            raise ValueError(f"{where} is empty")
        if tensor.is_floating_point() and tensor.isnan().any():
            raise ValueError(f"{where} holds NaN")
