"""What an unfinished calibration has seen, in a file beside the cache that it will write."""

from pathlib import Path

from .._native import C
from . import whole_files


class Partial:
    """The file of a calibration of the model with this digest, with channels or without. vkexec
    --calibData has the same.

    Attributes:
        done: batches that were counted.
        seen: C.Observations; None: there is no file.
    """

    def __init__(self, cache: str, digest: str, by_channels: bool):
        self.path = Path(f"{cache}.partial")
        self._digest, self._by_channels = digest, by_channels
        self.done, self.seen = 0, None

    def load(self) -> None:
        """Reads it, where there is one. Raises ValueError where it is of another model, or no such
        file."""
        if not self.path.exists():
            return
        try:
            digest, done, seen = C.read_unfinished(self.path.read_bytes().decode(errors="replace"))
        except ValueError as error:
            raise ValueError(f"tv.calibrate: {self.path} cannot be read: remove it ({error})"
                             ) from error
        if digest != self._digest or seen.by_channels != self._by_channels:
            raise ValueError(f"tv.calibrate: {self.path} is of another model or version, or of "
                             "other options: remove it, or give another cache")
        self.done, self.seen = done, seen

    def save(self, done: int, seen) -> None:
        """Writes what was seen in `done` batches."""
        whole_files.write_text(self.path, seen.unfinished(self._digest, done), "tv.calibrate")

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
