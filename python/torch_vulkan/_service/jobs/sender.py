"""The thread that sends webhook events.

An event is on disk before it is sent and until the receiver took it, so each arrives at least once,
with the same id each time: the receiver drops what it knows.
"""

import asyncio
import ipaddress
import logging
import random
import socket
import threading
import time
from dataclasses import dataclass

import httpx
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import or_, select

from ..storage.database import Database
from ..storage.tables import EventState, WebhookEvent
from . import webhooks

_INTERVAL_S = 0.25
_AT_A_TIME = 8
_TO_ONE_HOST = 2  # one that answers slowly does not keep the others waiting
_LONGEST_DELAY_S = 12 * 3600
_GONE = 410
log = logging.getLogger("torch_vulkan.service")


@dataclass(frozen=True)
class Policy:
    """How events are sent.

    Attributes:
        delay: seconds before the second attempt; each next wait is four times as long.
        attempts: after so many an event is dead.
        seconds: the longest that one attempt takes.
        allow_private: sends to private addresses, and by http.
    """

    delay: float = 5
    attempts: int = 10
    seconds: float = 15
    allow_private: bool = False


class _Refused(Exception):
    pass


class Sender(threading.Thread):
    """Args:
        master: what the secrets of events are made from (webhooks.secret_of).
    """

    def __init__(self, database: Database, master: bytes, policy: Policy):
        super().__init__(name="sender", daemon=True)
        self.master, self.policy = master, policy
        self._database = database
        self._stopping = threading.Event()
        self._running: dict[str, str] = {}  # event → host

    def stop(self) -> None:
        """Ends the thread; what is being sent is sent again after the next start."""
        self._stopping.set()
        if self.is_alive():
            self.join(timeout=30)

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        tasks = set()
        async with httpx.AsyncClient(
                follow_redirects=False, trust_env=False, timeout=self.policy.seconds,
                verify=httpx.create_ssl_context(),
                # A connection is checked for one name; the address may have several.
                limits=httpx.Limits(max_keepalive_connections=0)) as http:
            while not self._stopping.is_set():
                for event in self._due():
                    self._running[event.id] = event.host
                    task = asyncio.create_task(self._send(http, event))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
                await asyncio.sleep(_INTERVAL_S)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _due(self) -> list[WebhookEvent]:
        """Events to send now. One that is due long after the longest wait was noted before the
        clock was set back."""
        found = []
        try:
            while len(self._running) + len(found) < _AT_A_TIME:
                now, hosts = time.time(), [*self._running.values(), *(e.host for e in found)]
                busy = [host for host in hosts if hosts.count(host) >= _TO_ONE_HOST]
                query = select(WebhookEvent).where(
                    WebhookEvent.state == EventState.PENDING,
                    or_(WebhookEvent.next_at <= now,
                        WebhookEvent.next_at > now + 2 * _LONGEST_DELAY_S),
                    WebhookEvent.host.not_in(busy),
                    WebhookEvent.id.not_in([*self._running, *(e.id for e in found)]),
                ).order_by(WebhookEvent.next_at).limit(1)
                with self._database.reading() as session:
                    event = session.exec(query).first()
                if event is None:
                    break
                found.append(event)
        except SQLAlchemyError as error:
            log.error("the sender of webhooks waits: %s", error)
        return found

    async def _send(self, http: httpx.AsyncClient, event: WebhookEvent) -> None:
        try:
            status, fault = await self._attempt(http, event)
            self._note(event, status, fault)
        except SQLAlchemyError as error:  # a full disk: the event is sent again
            log.error("webhook %s: %s", event.id, error)
            await asyncio.sleep(self.policy.delay)
        finally:
            del self._running[event.id]

    async def _attempt(self, http, event: WebhookEvent) -> tuple[int, str]:
        """The status of the answer, 0 without one, and why the event has to be sent again."""
        try:
            async with asyncio.timeout(self.policy.seconds):
                status = await self._posted(http, event)
        except TimeoutError:
            return 0, f"no answer within {self.policy.seconds:g} s"
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError, _Refused) as error:
            return 0, str(error)[:300] or type(error).__name__
        if 200 <= status < 300:
            return status, ""
        return status, f"the receiver answered with status {status}"

    async def _posted(self, http, event: WebhookEvent) -> int:
        url = httpx.URL(event.url)
        address = await self._address(url)
        body = event.body.encode()
        secret = webhooks.secret_of(self.master, event.key)
        headers = webhooks.headers(secret, event.id, int(time.time()), body)
        # The address that was checked, not what the name means a moment later.
        there = url.copy_with(host=f"[{address}]" if ":" in address else address)
        async with http.stream("POST", there, content=body,
                               headers=headers | {"host": url.netloc.decode("ascii")},
                               extensions={"sni_hostname": url.raw_host.decode("ascii")}) as answer:
            return answer.status_code

    async def _address(self, url: httpx.URL) -> str:
        port = url.port or {"https": 443, "http": 80}[url.scheme]
        found = await asyncio.get_running_loop().getaddrinfo(
            url.raw_host.decode("ascii").strip("[]"), port, type=socket.SOCK_STREAM)
        addresses = [info[4][0] for info in found]
        for address in addresses:
            if not self.policy.allow_private and not webhooks.is_public(
                    ipaddress.ip_address(address.partition("%")[0])):
                raise _Refused(f"{url.host} has the private address {address}")
        return addresses[0]

    def _note(self, sent: WebhookEvent, status: int, fault: str) -> None:
        with self._database.writing() as session:
            event = session.get(WebhookEvent, sent.id)
            if event is None or event.attempts != sent.attempts:
                return  # asked for again, or removed, in the meantime
            event.attempts += 1
            event.reason = fault
            if not fault:
                event.state = EventState.DELIVERED
            elif status == _GONE or event.attempts >= self.policy.attempts:
                event.state = EventState.DEAD
            else:
                event.next_at = time.time() + self._wait(event.attempts)
            if event.state != EventState.PENDING:
                event.ended = time.time()
            session.add(event)
        log.info("webhook %s to %s, attempt %d: %s", event.id, event.host, event.attempts,
                 fault or "delivered", extra={"fields": {
                     "webhook": event.id, "attempt": event.attempts, "state": event.state}})

    def _wait(self, attempts: int) -> float:
        """Before the next attempt; drawn, so that receivers that were away are not flooded."""
        wait = min(self.policy.delay * 4 ** min(attempts - 1, 20), _LONGEST_DELAY_S)
        return wait * random.uniform(0.8, 1.2)
