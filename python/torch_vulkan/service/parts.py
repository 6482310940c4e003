"""What the service consists of."""

import threading
from dataclasses import dataclass, field

from .database import Database
from .runner import Runner
from .scheduler import Scheduler
from .store import Store


@dataclass
class Parts:
    """`closing`: set when the service is asked to end; whoever follows a log is let go."""

    database: Database
    store: Store
    runner: Runner
    scheduler: Scheduler
    version: str
    most_upload_bytes: int
    closing: threading.Event = field(default_factory=threading.Event)
