"""Clients that submit jobs to a compile service while it and its tasks are killed."""

import contextlib
import os
import random
import signal
import threading
import time

from torch_vulkan._service.client.client import ENDED
from torch_vulkan.service import ServiceError

from .service_process import Service, layers
from .webhook_receiver import Receiver

PATIENCE_S = 1800
ARGUMENTS = ("--webhook-private", "--webhook-delay", "0.05", "--rate", "0")
_BAD_EACH = 10  # of so many models one is none


def insisting(service: Service, ask):
    """What a client does: asks again until there is an answer. A service that comes back has
    another port."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            with service.client() as client:
                return ask(client)
        except (ServiceError, OSError) as error:
            if getattr(error, "status", 0) or time.monotonic() > end:
                raise
            time.sleep(0.05)


class Load:
    """Jobs of several clients, each submitted twice, as by one whose answer was lost; the service
    was started with ARGUMENTS."""

    def __init__(self, service: Service, jobs: int, clients: int, seed: int):
        self._service, self._jobs, self._clients = service, jobs, clients
        self._draw = random.Random(seed)
        self._tasks_killed = self._given_up = 0
        self._models = [layers([8, 5 + i])[0] for i in range(8)]

    def _submit(self, receiver: Receiver, first: int) -> None:
        for i in range(first, self._jobs, self._clients):
            model = b"no model" if i % _BAD_EACH == 0 else self._models[i % len(self._models)]
            for _ in range(2):
                insisting(self._service, lambda c, i=i, model=model: c.submit(
                    model, ["lavapipe"], name=f"kill/{i}", job_id=f"kill-{i}",
                    options={"optimization_level": 0}, notify=receiver.url))

    def killed(self, kills: int) -> list[str]:
        """Faults, after so many kills of the service and twice as many of tasks, each at a random
        moment, spread over the jobs."""
        with Receiver(200) as receiver:
            threads = [threading.Thread(target=self._submit, args=(receiver, i))
                       for i in range(self._clients)]
            for thread in threads:
                thread.start()
            for done in range(kills):
                self._await(self._jobs * done // (kills + 1))
                for _ in range(2):
                    time.sleep(self._draw.uniform(0.2, 1.5))
                    self._kill_tasks()
                time.sleep(self._draw.uniform(0.2, 1.5))
                self._service.kill()
                self._service.start()
            for thread in threads:
                thread.join()
            faults = [fault for i in range(self._jobs) if (fault := self._fault(i))]
            if 3 * self._given_up > self._tasks_killed:
                faults.append(f"{self._given_up} tasks were given up after {self._tasks_killed} "
                              "kills: want three for each")
            return faults + self._lost_events(receiver)

    def _await(self, count: int) -> None:
        """Until so many jobs have ended."""
        end = time.monotonic() + PATIENCE_S
        while insisting(self._service, self._ended) < count and time.monotonic() < end:
            time.sleep(0.3)

    def _ended(self, client) -> int:
        found = client.list(limit=min(self._jobs, 1000))
        return sum(job["state"] in ENDED for job in found)

    def _kill_tasks(self) -> None:
        for child in self._service.children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
                self._tasks_killed += 1

    def _fault(self, i: int) -> str:
        job = insisting(self._service, lambda c: c.wait(f"kill-{i}", PATIENCE_S))
        made = insisting(self._service, lambda c: c.artifacts(f"kill/{i}"))
        wanted = ("FAILED", 0) if i % _BAD_EACH == 0 else ("COMPLETED", 1)
        if (job["state"], len(made)) == wanted:
            return ""
        (task,) = job["tasks"]
        if job["state"] == "FAILED" and not made and "signal 9" in " ".join(task["reasons"]):
            self._given_up += 1  # as a task is whose process ends three times
            return ""
        return f"{job['id']}: {job['state']}, {len(made)} artefacts: {task['reasons']}"

    def _lost_events(self, receiver: Receiver) -> list[str]:
        """Every job has one event, when repetitions are dropped."""
        end = time.monotonic() + PATIENCE_S
        while insisting(self._service, lambda c: c.webhooks("PENDING")):
            if time.monotonic() > end:
                break
            time.sleep(0.2)
        ids = {}
        for _, headers, body in receiver.got:
            ids.setdefault(body, set()).add(headers["webhook-id"])
        told = len(receiver.ids())
        return [f"{len(found)} events of one end" for found in ids.values() if len(found) > 1] + (
            [] if told == self._jobs == len(ids) else [f"{told} events of {self._jobs} jobs"])
