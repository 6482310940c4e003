"""What the service consists of."""

import threading
from dataclasses import dataclass, field

from .artifacts import Publisher
from .database import Database
from .observe import Audit, Metrics
from .quotas import Quotas
from .rate import RateLimit
from .runner import Runner
from .scheduler import Scheduler
from .sender import Sender
from .signing import Signer
from .store import Keeping
from .timings import Timings
from .traces import NoTraces


@dataclass
class Parts:
    """`threads`: to start and to stop, in this order. `closing`: set when the service is asked to
    end; whoever follows a log is let go."""

    database: Database
    store: Keeping
    runner: Runner
    scheduler: Scheduler
    sender: Sender
    signer: Signer
    publisher: Publisher
    timings: Timings
    rate: RateLimit
    quotas: Quotas
    metrics: Metrics
    audit: Audit
    traces: NoTraces
    threads: list
    version: str
    most_upload_bytes: int
    most_waiting: int
    closing: threading.Event = field(default_factory=threading.Event)
