"""SQLite with a write-ahead log: readers never wait, writers take turns."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import create_engine, event
from sqlmodel import Session, SQLModel

from . import tables  # noqa: F401  (makes the tables known)

_SCHEMA = 2  # PRAGMA user_version


class Database:
    """Sessions of the service's database.

    Raises:
        ValueError: the file is of another version of the service.
    """

    def __init__(self, path: Path):
        self._engine = create_engine(f"sqlite:///{path}", connect_args={
            "check_same_thread": False, "timeout": 30})
        event.listen(self._engine, "connect", _connected)
        event.listen(self._engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
        self._write_lock = threading.Lock()
        with self._engine.connect() as connection:
            version = connection.exec_driver_sql("PRAGMA user_version").scalar()
        if version not in (0, _SCHEMA):
            raise ValueError(f"{path} is of another version of the service: schema {version}, "
                             f"want {_SCHEMA}")
        with self._engine.begin() as connection:
            SQLModel.metadata.create_all(connection)
            connection.exec_driver_sql(f"PRAGMA user_version = {_SCHEMA}")

    @contextlib.contextmanager
    def reading(self) -> Iterator[Session]:
        """What a session reads is of one moment."""
        with Session(self._engine) as session:
            yield session

    @contextlib.contextmanager
    def writing(self) -> Iterator[Session]:
        """One transaction, on disk when the block ends; after an exception nothing has changed."""
        with self._write_lock, Session(self._engine, expire_on_commit=False) as session:
            yield session
            session.commit()

    def close(self) -> None:
        self._engine.dispose()


def _connected(connection, _record) -> None:
    connection.isolation_level = None  # the driver begins no transactions of its own
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")
