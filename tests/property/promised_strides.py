"""A backend that computes as eager and lays results out as PyTorch's fake tensors say, which is
what torch.compile promises; kernels lay some out otherwise (a dimension of one element beside
broadcast ones)."""

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

NAME = "promised_strides"


def _hint(size) -> int:
    return size.node.hint if isinstance(size, torch.SymInt) else size


def _laid_out(result, promised, arguments: set[int]):
    """`result` with its dimensions in the order of those of `promised`, a fake tensor."""
    if not isinstance(result, torch.Tensor) or not isinstance(promised, torch.Tensor) or (
            result._base is not None or result.layout != torch.strided
            or result.untyped_storage().data_ptr() in arguments
            or not torch._prims_common.is_non_overlapping_and_dense(result)):
        return result
    order = sorted(range(result.dim()), key=lambda d: -_hint(promised.stride(d)))
    other = torch.empty_permuted(result.shape, order, dtype=result.dtype, device=result.device)
    return result if other.stride() == result.stride() else other.copy_(result)


def _compiler(module, _):
    promised = [getattr(value, "meta", {}).get("val")
                for value in module.graph.output_node().args[0]]

    def run(*args):
        arguments = {a.untyped_storage().data_ptr() for a in args if isinstance(a, torch.Tensor)
                     and a.layout == torch.strided}
        results = module.forward(*args)
        return [_laid_out(result, fake, arguments)
                for result, fake in zip(results, promised, strict=True)]

    return make_boxed_func(run)


def promised_strides(module, inputs):
    return aot_autograd(fw_compiler=_compiler, bw_compiler=lambda m, _: make_boxed_func(m.forward),
                        keep_inference_input_mutations=True)(module, inputs)


torch._dynamo.register_backend(promised_strides, name=NAME)
