"""What a calibration did not say."""

import warnings

_SHOWN = 5
_PRODUCTS = {"aten::mm", "aten::addmm", "aten::matmul", "aten::linear", "aten::convolution"}


def warn_of_missing(use: dict) -> None:
    """Warns of the tensors without a scale; `use`: Plan.calibration."""
    if use["refusal"]:
        warnings.warn(f"torch_vulkan: {use['refusal']}", stacklevel=3)
    missing = use["missing"]
    if missing:
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        warnings.warn(
            f"torch_vulkan: calibration has no scale for {', '.join(missing[:_SHOWN])}{more}: what "
            f"reads them stays in floats ({use['scaled']} of {use['points']} products and "
            "convolutions have one)", stacklevel=3)


def warn_of_gradients(use: dict, operators: set[str]) -> None:
    """Warns of a graph with products that keeps what gradients need, and has no constant
    weights; `use` as above."""
    if not use["points"] and operators & _PRODUCTS:
        warnings.warn("torch_vulkan: nothing is computed in int8, in spite of the calibration: "
                      "gradients are wanted, and weights are no constants then; call the model "
                      "under torch.no_grad()", stacklevel=3)
