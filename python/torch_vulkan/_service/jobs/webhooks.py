"""Webhooks in the Standard Webhooks format: what is sent when a job has ended, and how it is
signed. The event is written with the end of its job; sender.py sends it.

Specification: https://www.standardwebhooks.com, version 1.0.
"""

import base64
import hashlib
import hmac
import ipaddress
import json
import time
import uuid
from urllib.parse import urlsplit

from sqlmodel import Session, select

from ..errors import ServiceError
from ..messages.answers import Webhook
from ..storage.database import Database
from ..storage.tables import Artifact, EventState, Job, Task, WebhookEvent

_REFUSED = "webhook_refused"


def secret_of(master: bytes, key_id: str) -> str:
    """What the events of jobs are signed with that this API key submitted: nobody who knows
    another's can forge them."""
    return "whsec_" + base64.b64encode(
        hmac.digest(master, f"webhook {key_id}".encode(), hashlib.sha256)).decode()


def headers(secret: str, event_id: str, seconds: int, body: bytes) -> dict[str, str]:
    """Of one attempt at sending an event."""
    signed = f"{event_id}.{seconds}.".encode() + body
    code = hmac.digest(base64.b64decode(secret.removeprefix("whsec_")), signed, hashlib.sha256)
    return {"webhook-id": event_id, "webhook-timestamp": str(seconds),
            "webhook-signature": "v1," + base64.b64encode(code).decode(),
            "content-type": "application/json"}


def check_url(url: str, allow_private: bool) -> None:
    """Raises ServiceError for a URL that nothing would be sent to. A name is resolved, and its
    addresses are checked, whenever an event is sent."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("https", "http"):
        raise ServiceError(422, _REFUSED, f"notify: got {url[:80]!r}, want https://HOST/…")
    if parts.username or parts.password or parts.fragment:
        raise ServiceError(422, _REFUSED, "notify: want a URL without a user and a fragment")
    if allow_private:
        return
    if parts.scheme != "https":
        raise ServiceError(422, _REFUSED, "notify: want https: a service takes http with "
                                          "--webhook-private alone")
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return
    if not is_public(address):
        raise ServiceError(422, _REFUSED, f"notify: {host} is a private address, which a service "
                                          "takes with --webhook-private alone")


def is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether it is of the open internet: not of this machine or network, and not an IPv6 address
    that stands for an IPv4 one."""
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    return address.version == 4 or not (address.is_site_local or address.ipv4_mapped
                                        or address.sixtofour or address.teredo)


def note_end(session: Session, job: Job) -> None:
    """Adds the event of a job that has ended, to the transaction that ends it."""
    if not job.notify:
        return
    tasks = session.exec(select(Task, Artifact.engine_digest).outerjoin(Artifact).where(
        Task.job == job.number).order_by(Task.id))
    body = {"type": f"job.{job.state.lower()}",
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(job.ended)),
            "data": {"job": job.id, "state": job.state, "model": job.model,
                     "model_digest": job.model_digest, "tasks": [
                         {"device": task.device, "level": task.level, "state": task.state,
                          "artifact": digest}
                         for task, digest in tasks]}}
    session.add(WebhookEvent(id=f"msg_{uuid.uuid4().hex}", job=job.number, url=job.notify,
                             host=urlsplit(job.notify).hostname, key=job.key,
                             body=json.dumps(body)))


# Of the receiver the host alone: the rest of a URL may be a secret.
_SHOWN = tuple(Webhook.model_fields)


def shown(event: WebhookEvent) -> dict:
    return {name: getattr(event, name) for name in _SHOWN}


def listed(database: Database, state: EventState | None, limit: int) -> list[dict]:
    """The newest first."""
    query = select(WebhookEvent, Job.id).join(Job).order_by(WebhookEvent.job.desc()).limit(limit)
    if state:
        query = query.where(WebhookEvent.state == state)
    with database.reading() as session:
        return [{"job": job} | shown(event) for event, job in session.exec(query)]


def retry(database: Database, event_id: str) -> dict:
    """Sends an event again, whether it arrived or not; the receiver sees the same id."""
    with database.writing() as session:
        event = session.get(WebhookEvent, event_id)
        if event is None:
            raise ServiceError(404, "not_found", f"there is no webhook event {event_id[:80]!r}")
        event.state, event.attempts, event.next_at = EventState.PENDING, 0, time.time()
        event.ended = None
        session.add(event)
        return shown(event)
