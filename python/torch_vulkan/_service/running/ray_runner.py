"""Runs each task as a job of a Ray cluster, which places it where its device is: a node is started
with the resources that `tv-compile resources` prints on it.

Ray's packages are on the nodes alone: this is a client of its Jobs REST API
(docs.ray.io/en/latest/cluster/running-applications/job-submission/rest.html).
"""

import contextlib
import json
import logging
import secrets
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

from ..errors import Away
from ..storage import private_file
from ..storage.remote_store import file_system
from . import devices, node, task_logs, timings
from .local_runner import remove_tree
from .runner import Run, Status
from .sandbox import SCRIPT, Limits
from .task_logs import TaskLogs

_POLL_S = 0.5
_NODES_S = 3
_TIMEOUT_S = 10
_LATE_S = 600
_MOST_NODES = 10_000
_OPEN = ("PENDING", "RUNNING")
_MARK = "torch_vulkan_service"
log = logging.getLogger("torch_vulkan.service")


@dataclass(frozen=True)
class Cluster:
    """Where runs go.

    Attributes:
        address: of Ray's dashboard.
        token: that of RAY_AUTH_TOKEN; "": none.
        store: the URL of the service's store, as the nodes know it.
        sandbox: runs are in bubblewrap.
        command: how a node starts a run; "": as this machine would.
    """

    address: str
    token: str
    store: str
    sandbox: bool = True
    command: str = ""


@dataclass
class _Job:
    run: Run
    folder: Path
    read: int = 0  # bytes of its log
    asked: float = 0
    status: Status | None = None
    cancelled: bool = False


class RayRunner:
    """Args:
        folder: the service's own, for logs and what runs leave.
        slots: the most runs at a time that do not tune.
        kinds: gives `tuned_for` of all known devices.
    """

    def __init__(self, folder: Path, slots: int, limits: Limits, cluster: Cluster,
                 kinds: Callable[[], list[str]]):
        self.slots, self._limits, self._cluster, self._kinds = slots, limits, cluster, kinds
        self._logs, self._folder = TaskLogs(folder / "logs"), folder / "runs"
        remove_tree(self._folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        # Several services may share a cluster and a store.
        self._name = private_file.kept(folder / "service.id",
                                       lambda: secrets.token_hex(4).encode()).decode()
        self._fs, self._root = file_system(cluster.store)
        self._http = httpx.Client(
            base_url=cluster.address, timeout=_TIMEOUT_S, trust_env=False,
            headers={"Authorization": f"Bearer {cluster.token}"} if cluster.token else {})
        self._command = shlex.split(cluster.command) or [sys.executable, str(SCRIPT)]
        self._jobs: dict[str, _Job] = {}
        self._left: dict[str, float] = {}  # jobs to remove, and until when they may yet appear
        self._asked_for_left = False
        self._tuners: dict[str, int] = {}
        self._tuners_at = 0.0

    def _ask(self, method: str, path: str, **given) -> httpx.Response:
        """Raises Away where there is no answer, or one of a cluster that is not well."""
        try:
            answer = self._http.request(method, path, **given)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Away("cluster", f"no answer from {self._cluster.address}: "
                                  f"{str(error) or type(error).__name__}") from None
        if answer.status_code in (401, 403):
            raise Away("cluster", f"{self._cluster.address} wants another token: set "
                                  "RAY_AUTH_TOKEN for the service, too")
        if answer.status_code >= 500 or (answer.status_code == 404 and "jobs" not in path):
            raise Away("cluster", f"{self._cluster.address}{path} answers with status "
                                  f"{answer.status_code}: {answer.text[-200:].strip()}")
        return answer

    def tuners(self) -> Mapping[str, int]:
        if time.monotonic() - self._tuners_at > _NODES_S:
            self._clear()
            found = self._ask("GET", "/api/v0/nodes", params={
                "detail": "true", "limit": _MOST_NODES}).json()["data"]["result"]["result"]
            held: dict[str, int] = {}
            for one in found:
                if one["state"] == "ALIVE":
                    for name, count in (one["resources_total"] or {}).items():
                        held[name] = held.get(name, 0) + int(count)
            self._tuners = {kind: count for kind in self._kinds()
                            if (count := held.get(devices.resource(kind), 0))}
            self._tuners_at = time.monotonic()
        return self._tuners

    def _clear(self) -> None:
        """Stops and removes what an earlier process of this service left, and what was submitted
        without an answer, which the cluster may begin late: those tasks are run again."""
        if not self._asked_for_left:
            for job in self._ask("GET", "/api/jobs/").json():
                if (job.get("metadata") or {}).get(_MARK) == self._name:
                    self._left[job["submission_id"]] = 0
            self._asked_for_left = True
        for name, until in [*self._left.items()]:
            path = f"/api/jobs/{name}"
            answer = self._ask("GET", path)
            if answer.status_code == 404:
                if time.monotonic() < until:
                    continue
            elif answer.json()["status"] in _OPEN:
                self._ask("POST", f"{path}/stop")
                continue
            else:
                self._ask("DELETE", path)
            del self._left[name]
            with contextlib.suppress(FileNotFoundError):
                self._in_store(self._fs.rm, node.run_folder(self._root, name), recursive=True)

    def _id(self, run_id: str) -> str:
        return f"tv-{self._name}-{run_id}"

    def _there(self, run_id: str) -> str:
        return node.run_folder(self._root, self._id(run_id))

    def submit(self, run: Run) -> None:
        name, level = self._id(run.id), run.request["level"]
        there = self._there(run.id)
        self._in_store(self._fs.makedirs, there, exist_ok=True)
        self._in_store(self._fs.pipe_file, f"{there}/task.json", json.dumps({
            "request": run.request, "digest": run.digest, "limits": asdict(self._limits),
            "sandbox": self._cluster.sandbox}).encode())
        if run.timings is not None:
            self._in_store(self._fs.pipe_file, f"{there}/{timings.NAME}", run.timings)
        asked = {"entrypoint": shlex.join([*self._command, "node", self._cluster.store, name]),
                 "submission_id": name, "metadata": {_MARK: self._name, "task": str(run.task)},
                 "entrypoint_num_cpus": 1}
        if level:
            asked["entrypoint_resources"] = {devices.resource(run.tuned_for): 1}
        try:
            answer = self._ask("POST", "/api/jobs/", json=asked)
        except Away:  # it may have begun
            self._left[name] = time.monotonic() + _LATE_S
            raise
        if answer.status_code >= 400:
            raise Away("cluster", f"it refuses a job: {answer.text[-300:].strip()}")
        folder = self._folder / run.id
        folder.mkdir(exist_ok=True)
        self._jobs[run.id] = _Job(run, folder)

    def _in_store(self, do, *given, **named):
        try:
            return do(*given, **named)
        except FileNotFoundError:
            raise
        except Exception as error:
            raise Away("store", f"{self._cluster.store}: {type(error).__name__}: "
                                f"{str(error)[:300]}") from error

    def status(self, run_id: str) -> Status:
        job = self._jobs[run_id]
        if job.status is None:
            if time.monotonic() - job.asked < _POLL_S:
                return Status(True, job.folder)
            job.status = self._status(job)
            job.asked = time.monotonic()
        return job.status or Status(True, job.folder)

    def _status(self, job: _Job) -> Status | None:
        """None: it runs."""
        path = f"/api/jobs/{self._id(job.run.id)}"
        answer = self._ask("GET", path)
        if answer.status_code == 404:
            return Status(False, job.folder, "the cluster does not know the run any more",
                          lost=True)
        state = answer.json()
        self._read_log(job, path)
        if state["status"] in _OPEN:
            if job.cancelled:
                self._ask("POST", f"{path}/stop")
            return None
        if job.cancelled or state["status"] == "STOPPED":
            return Status(False, job.folder, "cancelled" if job.cancelled else
                          "somebody stopped the job in the cluster", again=not job.cancelled)
        if state["status"] != "SUCCEEDED":
            return Status(False, job.folder, f"the cluster's job failed: "
                                             f"{str(state.get('message'))[:500]}", again=True)
        return self._outcome(job)

    def _outcome(self, job: _Job) -> Status:
        there = self._there(job.run.id)
        try:
            outcome = json.loads(self._in_store(self._fs.cat_file, f"{there}/{node.OUTCOME}"))
        except (FileNotFoundError, ValueError):
            return Status(False, job.folder, "the node left no outcome in the store", again=True)
        if outcome["fault"]:
            return Status(False, job.folder, str(outcome["fault"])[:500], bool(outcome["again"]))
        for file in node.FILES:
            try:
                self._in_store(self._fs.get_file, f"{there}/{file}", str(job.folder / file))
            except FileNotFoundError:
                (job.folder / file).unlink(missing_ok=True)
        return Status(False, job.folder)

    def _read_log(self, job: _Job, path: str) -> None:
        answer = self._ask("GET", f"{path}/logs")
        if answer.status_code != 200:
            return
        text = answer.json().get("logs") or ""
        data = text.encode(errors="replace")[:task_logs.LONGEST]
        if len(data) > job.read:
            self._logs.append(job.run.task, data[job.read:])
            job.read = len(data)

    def cancel(self, run_id: str) -> None:
        if run_id in self._jobs:
            self._jobs[run_id].cancelled = True  # what asks for its status stops it

    def logs(self, task: int, offset: int) -> bytes:
        return self._logs.read(task, offset)

    def forget_log(self, task: int) -> None:
        self._logs.forget(task)

    def forget(self, run_id: str) -> None:
        job = self._jobs.pop(run_id)
        remove_tree(job.folder)
        try:
            self._ask("DELETE", f"/api/jobs/{self._id(run_id)}")
            self._in_store(self._fs.rm, self._there(run_id), recursive=True)
        except (Away, FileNotFoundError) as error:
            log.warning("what run %s left stays: %s", run_id, error)

    def close(self) -> None:
        """Stops all runs, if the cluster can be asked."""
        for run_id in [*self._jobs]:
            try:
                self._ask("POST", f"/api/jobs/{self._id(run_id)}/stop")
            except Away as error:
                log.warning("run %s goes on: %s", run_id, error)
                break
        self._http.close()
