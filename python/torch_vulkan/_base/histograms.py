"""Histograms of magnitudes, and the largest one that 8 bits should represent, by several methods.

The methods are those of NVIDIA's pytorch-quantization and ModelOpt
(modelopt/torch/quantization/calib/histogram.py), whose results these equal to within a bin.
"""

import math

import torch

BINS = 2048
LEVELS = 128  # of an int8 tensor's magnitudes
_MOST_BINS = 8 * BINS  # then two bins become one
_COUNTED = 1 << 23  # elements at once: histc counts in float32
METHODS = ("entropy", "percentile", "mse", "minmax")


class Histogram:
    """How often magnitudes occur: bins of one width from 0 on. The first tensor that holds anything
    but zeros chooses the width, a 2048th of its largest magnitude; larger ones later add bins of
    that width, and where these would be more than 16384, bins become twice as wide.

    Attributes:
        counts: float64 [bins].
        width: of a bin; 0 before anything but zeros was seen.
        amax: the largest magnitude.
        zeros: how many zeros were seen before there was a width.
    """

    def __init__(self):
        self.counts = torch.zeros(0, dtype=torch.float64)
        self.width = self.amax = 0.0
        self.zeros = 0

    def add(self, tensor: torch.Tensor) -> None:
        """Counts a tensor's elements. Raises ValueError for infinities and NaN."""
        magnitudes = tensor.detach().abs().flatten().float()
        if not magnitudes.numel():
            return
        amax = magnitudes.max().item()  # NaN where there is one
        if not math.isfinite(amax):
            raise ValueError("NaN" if math.isnan(amax) else "infinities")
        self.amax = max(self.amax, amax)
        if self.width == 0:
            if amax < BINS * torch.finfo(torch.float32).tiny:
                self.zeros += magnitudes.numel()
                return
            self.width = amax / BINS
            self.counts = torch.zeros(BINS, dtype=torch.float64)
            self.counts[0] = self.zeros
        self._grow(amax)
        bins = len(self.counts)
        for part in magnitudes.split(_COUNTED):
            found = torch.histc(part, bins, 0, bins * self.width).cpu().double()
            # histc leaves out the largest magnitude where it rounds the end down.
            found[-1] += part.numel() - found.sum()
            self.counts = self.counts + found

    def _grow(self, amax: float) -> None:
        while amax > self.width * _MOST_BINS:
            if len(self.counts) % 2:
                self.counts = torch.cat([self.counts, self.counts.new_zeros(1)])
            self.counts = self.counts.view(-1, 2).sum(1)
            self.width *= 2
        more = math.ceil(amax / self.width) - len(self.counts)
        if more > 0:
            self.counts = torch.cat([self.counts, self.counts.new_zeros(more)])

    # --- the largest magnitude to represent ---

    def largest(self, method: str, percentile: float) -> float:
        """By the method; 0 where nothing but zeros was seen. `percentile` is for the method of that
        name."""
        if self.width == 0 or method == "minmax":
            return self.amax
        if method == "percentile":
            return self._percentile(percentile)
        return self._entropy() if method == "entropy" else self._mse()

    def _percentile(self, percentile: float) -> float:
        """The upper edge of the bin in which the share of magnitudes reaches `percentile` %.
        Wu et al., Integer quantization for deep learning inference (arXiv 2004.09602), 4.1."""
        shares = (self.counts / self.counts.sum()).cumsum(0)
        at = torch.searchsorted(shares, torch.tensor(percentile / 100, dtype=torch.float64))
        return min((float(at) + 1) * self.width, self.amax)

    def _entropy(self) -> float:
        """The clipping for which the distribution in 128 levels differs least from that in bins, by
        its Kullback-Leibler divergence, as Migacz has it (8-bit inference with TensorRT, GTC 2017,
        S7310).

        For each number of bins i from 128 on: p is the first i bins, what is clipped added to the
        last of them; q is the same without what is clipped, each level's sum spread evenly over its
        bins that are not empty. The sums over bins are differences of running ones.
        """
        bins = self.counts.clone()
        bins[0] = bins[1]  # zeros, which every clipping represents
        first = torch.zeros(1, dtype=torch.float64)
        sums = torch.cat([first, bins.cumsum(0)])
        filled = torch.cat([first, (bins > 0).double().cumsum(0)])
        own = torch.cat([first, torch.special.xlogy(bins, bins).cumsum(0)])  # Σ p log p
        total = sums[-1]
        if total == 0:
            return self.amax
        chosen, least = len(bins), math.inf
        for part in torch.arange(LEVELS, len(bins) + 1).split(1024):
            levels = torch.arange(LEVELS + 1)
            edges = -(-(part[:, None] * levels) // LEVELS)  # the first bin of each level
            mass = sums[edges].diff(dim=1)
            width = filled[edges].diff(dim=1)
            mean = torch.where(width > 0, mass / width, 0)
            clipped = total - sums[part]
            last, last_mean = bins[part - 1], mean[:, -1]
            p_log_p = (own[part] - torch.special.xlogy(last, last)
                       + torch.special.xlogy(last + clipped, last + clipped))
            p_log_q = (torch.special.xlogy(mass, mean).sum(1)
                       + torch.special.xlogy(clipped, torch.where(last > 0, last_mean, 0)))
            divergence = (p_log_p - p_log_q) / total - total.log() + sums[part].log()
            divergence = divergence.nan_to_num(nan=math.inf)
            value = divergence.min().item()
            if value <= least:  # of equal ones the last
                least = value
                chosen = int(part[(divergence == value).nonzero()[-1]])
        return chosen * self.width

    def _mse(self) -> float:
        """The clipping, to the middle of a bin, whose quantisation has the least squared error."""
        bins = len(self.counts)
        middles = (torch.arange(bins, dtype=torch.float64) + 0.5) * self.width
        seen = self.counts > 0
        values, counts = middles[seen], self.counts[seen]
        chosen, least = self.amax, math.inf
        for part in middles[LEVELS:].split(256):
            scale = (LEVELS - 1) / part[:, None]
            held = (values * scale).round_().clamp_(max=LEVELS - 1).div_(scale)
            errors = held.sub_(values).square_() @ counts
            value, at = errors.min(0)
            if value < least:
                least, chosen = value.item(), part[at].item()
        return chosen

    # --- what a file holds ---

    def state(self) -> dict:
        return {"counts": self.counts, "width": self.width, "amax": self.amax, "zeros": self.zeros}

    @classmethod
    def of_state(cls, state: dict) -> "Histogram":
        made = cls()
        made.counts, made.width = state["counts"], state["width"]
        made.amax, made.zeros = state["amax"], state["zeros"]
        return made
