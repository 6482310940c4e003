"""Networks in 8 bits as other tools make them: a module by PT2E, a file by ONNX Runtime."""

import contextlib
import importlib.util
import logging
import tempfile
import warnings
from pathlib import Path

import torch
from torch import nn

from workloads.networks import export

TORCHAO = "torchao is not installed"


class NothingQuantised(Exception):
    """A quantiser that changed nothing, as torchao 0.16 with PyTorch 2.11."""


def has_torchao() -> bool:
    return importlib.util.find_spec("torchao") is not None


def pt2e(module: nn.Module, batches: list[torch.Tensor]) -> nn.Module:
    """The module with pairs around its convolutions and layers: activations of uint8 with zero
    points, weights of int8 by channel. All inputs have the shape of the batches. Raises
    NothingQuantised where the module would stay as it is."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config())
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        # The quantizer asks where nodes come from: PyTorch 2.11 says it of a strict export alone.
        exported = torch.export.export(module, (batches[0],), strict=True).module()
        exported.graph.eliminate_dead_code()  # the quantizer stumbles over layers nobody reads
        exported.recompile()
        prepared = prepare_pt2e(exported, quantizer)
        for batch in batches:
            prepared(batch)
        converted = convert_pt2e(prepared)
    if not any("quantize" in str(node.target) for node in converted.graph.nodes):
        raise NothingQuantised("this torchao finds nothing to quantise with this PyTorch")
    return converted


@contextlib.contextmanager
def quiet():
    """Without warnings of the quantiser about tensors that it leaves alone."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def qdq(module: nn.Module, batches: list[torch.Tensor], path: Path,
        op_types: list[str] | None = None) -> None:
    """Writes an ONNX file with pairs of QuantizeLinear and DequantizeLinear around operators of
    these types, or of all that the quantiser knows: activations of uint8 with zero points, weights
    of int8 by channel. All inputs have the shape of the batches."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader:
        def __init__(self):
            self.batches = iter([{"x": batch.numpy()} for batch in batches])

        def get_next(self):
            return next(self.batches, None)

    with tempfile.TemporaryDirectory() as folder, quiet():
        plain, prepared = Path(folder) / "plain.onnx", Path(folder) / "prepared.onnx"
        export(module, batches[0], plain)
        quant_pre_process(str(plain), str(prepared), skip_symbolic_shape=True)
        quantize_static(str(prepared), str(path), Reader(), quant_format=QuantFormat.QDQ,
                        per_channel=True, activation_type=QuantType.QUInt8,
                        weight_type=QuantType.QInt8, op_types_to_quantize=op_types)


def snr_db(got: torch.Tensor, want: torch.Tensor) -> float:
    """Signal-to-noise ratio of `got`, where `want` is the signal."""
    noise = (got.double() - want.double()).square().sum()
    return (10 * torch.log10(want.double().square().sum() / noise)).item()


def top_5(got: torch.Tensor, want: torch.Tensor) -> float:
    """Share of the five largest of each row that are the five largest of the other one's."""
    ours, theirs = (t.float().flatten(0, -2).topk(5).indices for t in (got, want))
    return (ours[:, :, None] == theirs[:, None]).any(-1).float().mean().item()
