"""What the service consists of."""

import threading
from dataclasses import dataclass, field

from .jobs.artifacts import Publisher
from .jobs.scheduler import Scheduler
from .jobs.sender import Sender
from .observe import Audit, Metrics
from .rate import RateLimit
from .running.runner import Runner
from .running.timings import Timings
from .storage.database import Database
from .storage.quotas import Quotas
from .storage.signing import Signer
from .storage.store import Keeping
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
