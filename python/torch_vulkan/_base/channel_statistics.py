"""What calibration sees of each channel of a tensor: for SmoothQuant and bias correction."""

import torch


class Channels:
    """Largest magnitudes and means of the channels of what was observed.

    Attributes:
        of_product: a product sums over them, and not a convolution.
        largest: float32 [channels].
        total: float64 [channels], the sum of elements.
        count: elements of a channel.
    """

    def __init__(self, of_product: bool):
        self.of_product = of_product
        self.largest = self.total = None
        self.count = 0

    def add(self, tensor: torch.Tensor, dim: int) -> None:
        """Counts a tensor with channels along `dim`. Raises ValueError for another number of
        channels than before."""
        rows = tensor.detach().movedim(dim, -1).flatten(end_dim=-2).float().cpu()
        if not rows.numel():
            return
        largest = rows.abs().amax(0)
        if self.largest is None:
            self.largest, self.total = largest, rows.double().sum(0)
        elif largest.shape != self.largest.shape:
            raise ValueError(f"{len(largest)} channels, and {len(self.largest)} before")
        else:
            self.largest = torch.maximum(self.largest, largest)
            self.total = self.total + rows.double().sum(0)
        self.count += len(rows)

    @property
    def means(self) -> torch.Tensor:
        """float32 [channels]."""
        return (self.total / self.count).float()

    # --- what a file holds ---

    def state(self) -> dict:
        return {"of_product": self.of_product, "largest": self.largest, "total": self.total,
                "count": self.count}

    @classmethod
    def of_state(cls, state: dict) -> "Channels":
        made = cls(state["of_product"])
        made.largest, made.total, made.count = state["largest"], state["total"], state["count"]
        return made
