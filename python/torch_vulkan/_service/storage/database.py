"""The service's database: SQLite in a file, or PostgreSQL by its URL.

Writers take turns, and one service at a time uses a database. SQLite has a write-ahead log, so
readers never wait; a lock on the service's folder keeps others out. With PostgreSQL all writers use
one connection, which holds a lock of the session: whoever writes knows that no other service does.
"""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlmodel import Session, SQLModel

from ..errors import Away, package
from . import tables  # noqa: F401  (makes the tables known)

_SCHEMA = 4
_LOCK = 0x7476_7376_6300  # of pg_try_advisory_lock: any number that nobody else takes
_READERS = 20


class Database:
    """Sessions of the service's database. Threads may share it.

    Args:
        place: a file of SQLite's, or a URL: postgresql://user@host/name.

    Raises:
        ValueError: it is of another version of the service, or no such URL.
        Away: it cannot be reached, or another service uses it.
    """

    def __init__(self, place: Path | str):
        self._write_lock = threading.Lock()
        if isinstance(place, Path):
            self._engine = self._writer = _sqlite(place)
        else:
            self._engine, self._writer = _postgresql(place)
        try:
            with self._writer.begin() as connection:
                self._prepare(connection, self._engine.url.render_as_string(hide_password=True))
        except DBAPIError as error:
            raise Away("database", str(error.orig)[:300]) from None

    def _prepare(self, connection, name: str) -> None:
        """Makes the tables of an empty database; refuses another version's."""
        connection.execute(text("CREATE TABLE IF NOT EXISTS service_schema (version INTEGER)"))
        version = connection.execute(text("SELECT max(version) FROM service_schema")).scalar()
        if version is None and connection.dialect.name == "sqlite":  # as it was kept before
            version = connection.exec_driver_sql("PRAGMA user_version").scalar() or None
        if version not in (None, _SCHEMA):
            raise ValueError(f"{name} is of another version of the service: schema {version}, "
                             f"want {_SCHEMA}")
        if version is None:
            SQLModel.metadata.create_all(connection)
            connection.execute(text(f"INSERT INTO service_schema VALUES ({_SCHEMA})"))

    @contextlib.contextmanager
    def reading(self) -> Iterator[Session]:
        """What a session reads is of one moment."""
        with Session(self._engine) as session:
            yield session

    @contextlib.contextmanager
    def writing(self) -> Iterator[Session]:
        """One transaction, on disk when the block ends; after an exception nothing has changed."""
        with self._write_lock, Session(self._writer, expire_on_commit=False) as session:
            yield session
            session.commit()

    def close(self) -> None:
        self._engine.dispose()
        self._writer.dispose()


def _sqlite(path: Path) -> Engine:
    engine = create_engine(f"sqlite:///{path}", connect_args={
        "check_same_thread": False, "timeout": 30})
    event.listen(engine, "connect", _connected)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


def _connected(connection, _record) -> None:
    connection.isolation_level = None  # the driver begins no transactions of its own
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _postgresql(place: str) -> tuple[Engine, Engine]:
    """For readers, and for writers."""
    try:
        url = make_url(place)
    except (ArgumentError, ValueError):
        raise ValueError(f"database: got {place.partition('@')[2] or place!r}, want "
                         "postgresql://USER@HOST/NAME") from None
    if url.get_backend_name() != "postgresql":
        raise ValueError(f"database: got {url.drivername}://, want postgresql://USER@HOST/NAME")
    package("psycopg", "service-postgresql")
    url = url.set(drivername="postgresql+psycopg")
    given = {"pool_pre_ping": True, "isolation_level": "REPEATABLE READ", "connect_args": {
        "connect_timeout": 10, "application_name": "torch_vulkan service",
        "options": "-c statement_timeout=60000 -c tcp_user_timeout=30000"}}
    try:
        readers = create_engine(url, pool_size=_READERS, **given)
        writer = create_engine(url, pool_size=1, max_overflow=0, **given)
    except NoSuchModuleError as error:
        raise ValueError(f"database: {error}") from None
    event.listen(writer, "connect", _hold)
    return readers, writer


def _hold(connection, _record) -> None:
    """Takes the lock that lasts as long as this connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", (_LOCK,))
        (held,) = cursor.fetchone()
    connection.commit()
    if not held:
        connection.close()
        raise Away("database", "another service uses it")
