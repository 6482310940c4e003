"""What a calibration did not say."""

import warnings

_SHOWN = 5
_PRODUCTS = {"aten::mm", "aten::addmm", "aten::bmm", "aten::matmul", "aten::linear",
             "aten::convolution", "Conv", "ConvTranspose", "Gemm", "MatMul"}


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


def warn_of_unused(use: dict, inside: set[str], outside: dict[str, str]) -> None:
    """Warns of a graph none of whose products with a scale is in an engine.

    Args:
        use: as above.
        inside: operators of engines.
        outside: operators that run natively → why.
    """
    reason = next((outside[op] for op in outside if op in _PRODUCTS), "")
    if use["scaled"] and reason and not inside & _PRODUCTS:
        more = "; min_block_size=1 builds it all the same" if "min_block_size" in reason else ""
        warnings.warn("torch_vulkan: nothing is computed in int8, in spite of the calibration: "
                      f"{reason}{more}", stacklevel=3)


def warn_of_gradients(use: dict, operators: set[str]) -> None:
    """Warns of a graph with products that keeps what gradients need, and has no constant
    weights; `use` as above."""
    if not use["points"] and operators & _PRODUCTS:
        warnings.warn("torch_vulkan: nothing is computed in int8, in spite of the calibration: "
                      "gradients are wanted, and weights are no constants then; call the model "
                      "under torch.no_grad()", stacklevel=3)
