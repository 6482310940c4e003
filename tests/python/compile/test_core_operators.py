"""Every operator of torch's core set has a converter or a decomposition, or a reason why not."""

import pytest
import torch

from torch_vulkan._dynamo.backend import decompositions
from torch_vulkan._fx.fx_nodes import op_name
from torch_vulkan._native import C

NATIVE = {
    "draws random numbers": ["native_dropout", "rand", "randn", "randperm"],
    "its result depends on data": ["_local_scalar_dense", "nonzero"],
    "writes into an argument; captured graphs have its functional form": ["atan2.out", "resize_"],
    "arithmetic on sizes is PyTorch's": ["sym_numel", "sym_size.int", "sym_storage_offset",
                                         "sym_stride.int"],
}


def core_operators():
    for name in torch._C._dispatch_get_all_op_names():  # those that nobody asked for yet, too
        namespace, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        if namespace == "aten":
            op = getattr(getattr(torch.ops.aten, packet), overload or "default")
            if torch.Tag.core in op.tags:
                yield op


@pytest.mark.skipif(torch.__version__ < "2.12", reason="earlier releases tag others")
def test_core_operators_are_supported():
    core = {op_name(op): op for op in core_operators()}
    assert len(core) > 180
    table = decompositions()
    missing = {name.removeprefix("aten::") for name, op in core.items()
               if op not in table and not C.is_registered(name)
               and not C.is_registered(name.replace("aten::", "complex::"))}
    native = {name for names in NATIVE.values() for name in names}
    assert missing <= native, sorted(missing - native)
    assert not any(C.is_registered(f"aten::{name}") for name in native)
