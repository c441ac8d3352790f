"""The executor on a Ray cluster: every program a task, the longest first, each on a node that has room for it.

A program whose process, worker or node dies goes to another node and on from its last checkpoint.
"""

import os
import socket
import uuid
import warnings
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any, NamedTuple

from vgcrl.errors import UsageError, install
from vgcrl.experiments.scheduling import storage, worker
from vgcrl.experiments.scheduling.tasks import Say, Task
from vgcrl.experiments.scheduling.view import View
from vgcrl.training.signals import stop_requests

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
try:
    import grpc
    import ray
    import ray.exceptions
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError:
    raise UsageError(f"--ray needs ray; valid: {install('ray')}") from None

ANSWER = 5.0  # seconds that an address has to answer
RETRIES = 5  # of a program whose process, worker or node dies
SAVING = 600.0  # seconds that programs have to save when they are stopped
HANDED_ON = ("JAX_", "XLA_", "MUJOCO_", "VGCRL_")  # variables that decide what a program computes
OBJECTS = 100_000_000  # bytes of Ray's object store, of which hardly anything is used


class Resources(NamedTuple):
    """Of each program; None is one GPU where the cluster has any, and one core."""

    gpus: float | None = None
    cpus: float = 1.0
    storage: str | None = None  # a URL that all nodes reach; else they share the experiment's folder


def _check_address(address: str) -> None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in address:
        raise UsageError(f"--ray {address!r} is no address; valid: local, auto, or HOST:PORT of a cluster")
    try:
        socket.create_connection((host, int(port)), ANSWER).close()
        with grpc.insecure_channel(address) as channel:  # left alone, ray waits for minutes
            grpc.channel_ready_future(channel).result(ANSWER)
    except (OSError, OverflowError) as error:
        raise UsageError(f"--ray {address}: nobody answers ({error}); valid: local, or a running cluster") from None
    except grpc.FutureTimeoutError:
        raise UsageError(f"--ray {address}: who answers is no Ray; valid: local, or the head of a cluster") from None


@contextmanager
def connected(address: str) -> Generator[None]:
    """To a cluster of this machine that ends with this process, or to one that is there and stays."""
    options: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
    if address == "local":
        options |= {"address": "local", "object_store_memory": OBJECTS}
    elif address != "auto":
        _check_address(address)
    try:
        with warnings.catch_warnings():  # of JAX, where Ray starts its processes: they never come back to it
            warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
            ray.init(**({"address": address} | options))
    except (ConnectionError, RuntimeError, ValueError) as error:
        first = str(error).partition("\n")[0]
        raise UsageError(f"--ray {address}: {first}; valid: local, or the address of a running cluster") from None
    try:
        yield
    finally:
        with without_chatter():
            ray.shutdown()


@contextmanager
def without_chatter() -> Generator[None]:
    """Ray prints what it thinks of dead workers; here it is told in one line each, and kept in Ray's logs."""
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        yield


def _nodes() -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def _granted(asked: Resources) -> Resources:
    """With the default filled in; what no node has is told at once, not waited for."""
    totals = [node["Resources"] for node in _nodes()]
    most = {kind: max(total.get(kind, 0.0) for total in totals) for kind in ("GPU", "CPU")}
    gpus = asked.gpus if asked.gpus is not None else min(1.0, most["GPU"])
    if not any(total.get("GPU", 0.0) >= gpus and total.get("CPU", 0.0) >= asked.cpus for total in totals):
        has = f"at most {most['GPU']:g} GPUs and {most['CPU']:g} cores on one node"
        raise UsageError(f"--gpus {gpus:g} --cpus {asked.cpus:g}: no node of the cluster has so much; valid: {has}")
    return asked._replace(gpus=gpus)


def _check_nodes(folder: Path, url: str | None) -> None:
    """Every node has this code, and reaches the place where programs are kept."""
    if url is not None:
        try:
            storage.check_writable(url)
        except Exception as error:  # each file system has its own
            first = str(error).partition("\n")[0]
            raise UsageError(f"--storage {url} cannot be written: {first}; valid: a URL that all nodes reach") from None
    folder.mkdir(parents=True, exist_ok=True)
    probe = folder / f".probe-{uuid.uuid4().hex}"
    probe.touch()
    try:
        nodes = _nodes()
        found = ray.get([_facts_of(node, str(probe.resolve()) if url is None else None) for node in nodes])
    finally:
        probe.unlink()
    ours = facts_here()
    for node, theirs in zip(nodes, found, strict=True):
        who = f"node {node['NodeManagerHostname']} ({node['NodeID'][:8]})"
        if not theirs["sees"]:
            raise UsageError(f"{who} does not see {folder}; valid: a folder that all nodes share, or --storage URL")
        for name in (name for name in ("vgcrl", "jax") if theirs[name] != ours[name]):
            what = f"{who} has {name} {theirs[name]}, here it is {ours[name]}"
            raise UsageError(f"{what}; valid: the same code on all nodes")


def facts_here() -> dict[str, Any]:
    return worker.node_facts(None)


def _on(node: str) -> dict[str, Any]:
    return {"num_cpus": 0, "scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}


def _facts_of(node: dict[str, Any], probe: str | None) -> Any:
    return ray.remote(worker.node_facts).options(**_on(node["NodeID"])).remote(probe)


def _outcome(ref: Any) -> tuple[str, str]:
    try:
        return ray.get(ref)
    except ray.exceptions.RayError as error:
        cause = str(getattr(error, "cause", None) or error).strip().partition("\n")[0]
        return "failed", f"died {RETRIES + 1} times: {cause}"


class OnRay:
    """An executor."""

    def __init__(self, resources: Resources):
        for module in (worker, storage):
            ray.cloudpickle.register_pickle_by_value(module)
        self._resources = _granted(resources)

    def share(self) -> dict[str, float]:
        """Of a node, for each program."""
        return {"num_gpus": self._resources.gpus or 0.0, "num_cpus": self._resources.cpus}

    def order(self, task: Task, folder: Path) -> worker.Order:
        variables = {k: v for k, v in os.environ.items() if k.startswith(HANDED_ON)}
        gpus, _, url = self._resources
        return worker.Order(task.name, task.module, task.words, str(folder.resolve()), url, gpus or 0.0, variables)

    def check(self, folder: Path) -> None:
        _check_nodes(folder, self._resources.storage)

    def __call__(self, tasks: list[Task], folder: Path, say: Say) -> list[str]:
        if not tasks:
            return []
        self.check(folder)
        board = ray.remote(worker.Board).options(**_on(ray.get_runtime_context().get_node_id())).remote()
        how: dict[str, Any] = {"max_retries": RETRIES, "retry_exceptions": [ChildProcessError], **self.share()}
        submit, longest = ray.remote(worker.work), sorted(tasks, key=lambda task: -task.work)
        with without_chatter(), View(tasks, say) as view:
            refs = {submit.options(name=t.name, **how).remote(self.order(t, folder), board): t for t in longest}
            return self._run(refs, folder, board, view)

    def _run(self, refs: dict[Any, Task], folder: Path, board: Any, view: View) -> list[str]:
        failed, pending = [], list(refs)
        with stop_requests(folder) as stopping:
            while pending and not stopping():
                ended, pending = ray.wait(pending, timeout=1.0)
                with suppress(ray.exceptions.RayError):  # the view may miss something, no program depends on it
                    view.update(ray.get(board.read.remote()))
                for ref in ended:
                    state, why = _outcome(ref)
                    self._fetch(refs[ref], folder, whole=state == "done")
                    view.ended(refs[ref].name, state, why)
                    failed += [f"{refs[ref].name}: {why}"] * (state == "failed")
            if pending:
                with stopping.saving:  # takes as long as it takes
                    self._stop([refs[ref] for ref in pending], pending, folder)
                raise KeyboardInterrupt
        return failed

    def _stop(self, tasks: list[Task], refs: list[Any], folder: Path) -> None:
        """Those that run save; those that wait never start."""
        for ref in refs:
            ray.cancel(ref)
        ray.wait(refs, num_returns=len(refs), timeout=SAVING)
        for task in tasks:
            self._fetch(task, folder, whole=False)

    def _fetch(self, task: Task, folder: Path, whole: bool) -> None:
        """From where the nodes keep it."""
        if (url := self._resources.storage) is not None:
            storage.Mirror(f"{url}/{folder.name}", folder, task.name).pull(whole)
