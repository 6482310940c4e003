"""What a user can do about a node that stays native, by the reason that it stays."""

import os
import re

_RULES = (
    (r"^no converter for",
     "Add one (docs/custom_operators.md), or write it with operators of tv.supported_ops()."),
    (r"its block has (?=1 ).*, fewer than min_block_size", "Set min_block_size to 1."),
    (r"compute nodes?, fewer than min_block_size", "Set min_block_size to {size} or less."),
    (r"compute nodes?; the GPU's switch", "Set min_block_size to {size} to build it all the same."),
    (r"^torch_executed_ops lists (\S+)", "Take {0} off torch_executed_ops."),
    (r"float64 stays native",
     "Cast to float32 before it, or set truncate_long_and_double=True."),
    (r"its dtype is not one that engines hold",
     "Compute with real tensors, a complex one as its two parts, and without quantised ones."),
    (r"needs a device with", "Use a dtype that the device stores, or another device."),
    (r"rank \d+ is above", "Merge dimensions with reshape before it."),
    (r"engines take fewer than 2\^31", "Split the tensor, as with a smaller batch."),
    (r"it draws random numbers",
     "Engines draw none. Dropout ends with model.eval(). What draws by the look of a tensor alone "
     "splits no engine."),
    (r"it has a side effect",
     "Write it without changing tensors in place, and checks outside of the model."),
    (r"sizes depend on data",
     "Keep sizes fixed: choose with torch.where or a mask in place of nonzero or a boolean index."),
    (r"live on several devices", "Move its tensors to one device with .to(device)."),
    (r"^it computes on", "Make it, and what it reads, on the device of the model's other tensors."),
    (r"whose bodies PyTorch runs",
     "Compute all branches and choose with torch.where, unroll loops of a fixed length, and use "
     "scaled_dot_product_attention in place of flex_attention."),
    (r"not an ATen operator",
     "Write it with PyTorch's operators, or make it a custom operator (docs/custom_operators.md)."),
    (r"as_strided of a tensor", "Use view, slicing or unfold in place of as_strided."),
    (r"is not determined by the shape of any input",
     "Pass a tensor of that size to the model, or fix the size."),
    (r" loop iterations", "Use a GPU, or smaller sizes: a CPU driver ends long loops."),
)


def advice(reason: str) -> str:
    """A sentence; "" if the reason itself says what would work."""
    for pattern, sentence in _RULES:
        if found := re.search(pattern, reason):
            block = re.search(r"its block has (\d+)", reason)
            return sentence.format(*found.groups(), size=block.group(1) if block else "1")
    return ""


# Where torch.export names the user's line, and where that is all that it names.
_CALL = re.compile(r'raised this error:\s*File "([^"]+)", line (\d+)')
_CAUSE = re.compile(r"Caused by: \(([^\s:]+\.py):(\d+)")


def export_reason(message: str) -> str:
    """Why torch.export did not take a model, by its message, which may go on for pages."""
    if "data-dependent expression" in message:
        found = _CALL.search(message) or _CAUSE.search(message)
        at = f"{os.path.basename(found[1])}:{found[2]}: " if found else ""
        return (f"{at}the code takes a path, a size or a number from the values of a tensor, which "
                "are not known while it is captured. Choose with torch.where or torch.cond, and "
                "keep sizes fixed.")
    lines = [line.strip() for line in message.strip().splitlines()]
    end = next((i for i, line in enumerate(lines) if i and not line), len(lines))
    return " ".join(lines[:min(end, 4)])[:400]
