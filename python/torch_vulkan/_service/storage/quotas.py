"""How much may be uploaded: by one key, and while the disk has room."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from sqlmodel import Session, func, select

from ..errors import ServiceError
from .database import Database
from .tables import Upload


@dataclass(frozen=True)
class Quotas:
    """Attributes:
        key_bytes: of the files in the store that one key uploaded; None: no limit.
        free_bytes: that uploads leave on the disk.
    """

    key_bytes: int | None = None
    free_bytes: int = 0

    def check(self, folder: Path, more: int) -> None:
        """Of an upload that is to come; it may be a file that is counted already.

        Raises:
            ServiceError: it is more than a key may have, or the disk is about to be full.
        """
        self.check_disk(folder, more)
        if self.key_bytes is not None and more > self.key_bytes:
            raise ServiceError(413, "quota", f"these {more} bytes are over the {self.key_bytes} "
                                             "of a key")

    def take(self, database: Database, key: str, digest: str, size_bytes: int) -> bool:
        """Counts a file that has come, once for each key; returns whether it was not counted yet.

        Raises:
            ServiceError: the key has used what it may.
        """
        with database.writing() as session:
            if session.get(Upload, (digest, key)) is not None:
                return False
            used = 0 if self.key_bytes is None else session.exec(select(
                func.coalesce(func.sum(Upload.size_bytes), 0)).where(Upload.key == key)).one()
            if self.key_bytes is not None and used + size_bytes > self.key_bytes:
                raise ServiceError(413, "quota", f"the key {key} has uploaded {used} bytes; with "
                                                 f"these {size_bytes} it would be over its "
                                                 f"{self.key_bytes}: remove what is old "
                                                 "(tv-compile gc)")
            session.add(Upload(digest=digest, key=key, size_bytes=size_bytes))
            return True

    def check_disk(self, folder: Path, more: int) -> None:
        """Raises ServiceError where the disk would have less room than it must."""
        if self.free_bytes and (free := shutil.disk_usage(folder).free) - more < self.free_bytes:
            raise ServiceError(507, "full", f"the service's disk has {free} bytes left and keeps "
                                            f"{self.free_bytes} free; nothing was kept")


def note(database: Database, key: str, digest: str, size_bytes: int) -> None:
    """That the store has the file of a key: it may have been removed since it was counted."""
    with database.reading() as session:
        if session.get(Upload, (digest, key)) is not None:
            return
    with database.writing() as session:
        if session.get(Upload, (digest, key)) is None:
            session.add(Upload(digest=digest, key=key, size_bytes=size_bytes))


def give_back(database: Database, key: str, digest: str) -> None:
    """Of a file that was counted and could not be kept."""
    with database.writing() as session:
        if row := session.get(Upload, (digest, key)):
            session.delete(row)


def forget(session: Session, digests: list[str]) -> None:
    """Of files that were removed."""
    for row in session.exec(select(Upload).where(Upload.digest.in_(digests))):
        session.delete(row)
