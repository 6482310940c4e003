"""Layers in the layouts of AWQ and GPTQ, packed by their definitions, element by element."""

import numpy
import torch

# AutoAWQ, WQLinear_GEMM: what stands in the i-th four bits of a word.
AWQ_PLACES = [0, 2, 4, 6, 1, 3, 5, 7]


def words(elements, bits):
    """Eight (four) elements of the last dimension in an int32, the first in the lowest bits."""
    per = 32 // bits
    packed = numpy.zeros((*elements.shape[:-1], elements.shape[-1] // per), "uint32")
    for i in range(elements.shape[-1]):
        packed[..., i // per] |= elements[..., i].astype("uint32") << numpy.uint32(i % per * bits)
    return torch.from_numpy(packed.view("int32"))


def awq_words(elements):
    moved = numpy.empty_like(elements)
    for i in range(elements.shape[-1]):
        moved[..., i] = elements[..., i // 8 * 8 + AWQ_PLACES[i % 8]]
    return words(moved, 4)


class Quantised:
    """Integers, zero points and scales of a layer, as any of the layouts, and its floats."""

    def __init__(self, rows, columns, bits, group, order="", seed=0, sorted_by=None):
        rng = numpy.random.default_rng(seed)
        self.bits, groups = bits, rows // group
        self.elements = rng.integers(0, 2**bits, (rows, columns))
        self.zeros = rng.integers(1, 2**bits, (groups, columns))
        self.scales = (rng.uniform(0.5, 1.5, (groups, columns)) / 2**bits).astype("float16")
        self.g_idx = numpy.arange(rows) // group
        if order:
            numpy.random.default_rng(7).shuffle(self.g_idx)

    def weight(self):
        """[out, in]."""
        zero, scale = self.zeros[self.g_idx], self.scales[self.g_idx].astype("float64")
        return torch.from_numpy(((self.elements - zero) * scale).T.astype("float32"))

    def tensors(self, layout):
        if layout == "awq":
            return {"qweight": awq_words(self.elements), "qzeros": awq_words(self.zeros),
                    "scales": torch.from_numpy(self.scales)}
        less = 1 if layout == "gptq" else 0
        return {"qweight": words(self.elements.T, self.bits).t().contiguous(),
                "qzeros": words(self.zeros - less, self.bits),
                "scales": torch.from_numpy(self.scales),
                "g_idx": torch.from_numpy(self.g_idx.astype("int32"))}
