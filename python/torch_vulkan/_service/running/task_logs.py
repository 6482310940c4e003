"""What tasks print: a file for each, which its runs go on."""

from pathlib import Path

LONGEST = 16 << 20
_LONGEST_READ = 1 << 20


class TaskLogs:
    """A folder of logs. Threads may share one."""

    def __init__(self, folder: Path):
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, task: int) -> Path:
        return self._folder / f"{task}.log"

    def read(self, task: int, offset: int) -> bytes:
        """Some of what a task printed, from a byte on."""
        try:
            with open(self.path(task), "rb") as file:
                file.seek(offset)
                return file.read(_LONGEST_READ)
        except FileNotFoundError:
            return b""

    def append(self, task: int, data: bytes) -> None:
        with open(self.path(task), "ab") as file:
            file.write(data)

    def forget(self, task: int) -> None:
        self.path(task).unlink(missing_ok=True)
