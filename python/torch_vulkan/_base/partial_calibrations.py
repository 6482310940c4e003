"""What an unfinished calibration has seen, in a file beside the cache that it will write."""

from pathlib import Path

import torch

from . import whole_files
from .channel_statistics import Channels
from .histograms import Histogram

_FORMAT = "torch_vulkan.calibration"
_VERSION = 3


class Partial:
    """The file of a calibration of the model with this digest.

    Attributes:
        done: batches that were counted.
        histograms: name → Histogram.
        channels: name → Channels, where they were wanted.
    """

    def __init__(self, cache: str, digest: str):
        self.path = Path(f"{cache}.partial")
        self._digest = digest
        self.done, self.histograms, self.channels = 0, {}, {}

    def load(self) -> None:
        """Reads it, where there is one. Raises ValueError where it is of another model, or no such
        file."""
        if not self.path.exists():
            return
        try:
            found = torch.load(self.path, weights_only=True)
            known = found["format"], found["version"]
            digest, done, states = found["model"], found["done"], found["histograms"]
            histograms = {name: Histogram.of_state(state) for name, state in states.items()}
            channels = {name: Channels.of_state(state)
                        for name, state in found["channels"].items()}
        except Exception as error:  # of many types: whatever a damaged archive raises
            raise ValueError(f"tv.calibrate: {self.path} cannot be read: remove it ({error})"
                             ) from error
        if known != (_FORMAT, _VERSION) or digest != self._digest:
            raise ValueError(f"tv.calibrate: {self.path} is of another model or version, or of "
                             "other options: remove it, or give another cache")
        self.done, self.histograms, self.channels = done, histograms, channels

    def save(self, done: int, states: dict, channels: dict) -> None:
        """Writes the state after `done` batches: of histograms, and of channels."""
        with whole_files.written(self.path, "tv.calibrate") as file:
            torch.save({"format": _FORMAT, "version": _VERSION, "model": self._digest,
                        "done": done, "histograms": states, "channels": channels}, file)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
