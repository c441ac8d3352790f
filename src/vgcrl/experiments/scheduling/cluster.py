"""The executor on a Ray cluster: every program is a task, the longest first, each on a node that has room for it.

A program whose process, worker or node dies continues on another node from its last checkpoint.
"""

import os
import signal
import socket
import warnings
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from vgcrl.errors import UsageError, install
from vgcrl.experiments.scheduling import storage, worker
from vgcrl.experiments.scheduling.tasks import Say, Stopped, Task
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

ANSWER = 20.0  # seconds that an address, or an actor of ours, has to answer
RETRIES = 5  # further attempts at a program whose process, worker or node dies
SAVING = 600.0  # seconds that programs have to save when they are stopped
HANDED_ON = ("JAX_", "XLA_", "MUJOCO_", "VGCRL_")  # variables that decide what a program computes
OBJECTS = 100_000_000  # bytes of Ray's object store, of which hardly anything is used


class Resources(NamedTuple):
    """What each program takes; None is one core, and one GPU where the cluster has any."""

    gpus: float | None = None
    cpus: float | None = None
    storage: str | None = None  # a URL that all nodes reach; else they share the experiment's folder


def check_share(asked: Resources) -> None:
    """Raises UsageError where Ray cannot count what is asked for; a program has a share of one GPU, or whole ones."""
    gpus, cpus = asked.gpus or 0.0, asked.cpus or 0.0
    for option, value in (("--gpus", gpus), ("--cpus", cpus)):
        if not 0 <= value <= 1024 or round(value, 4) != value:
            raise UsageError(f"{option} {value:g} is out of range; valid: a number from 0 to 1024, of four decimals")
    if gpus > 1 and gpus % 1:
        raise UsageError(f"--gpus {gpus:g} is a share of several GPUs; valid: up to 1, or a whole number")
    if asked.gpus == asked.cpus == 0:
        raise UsageError("--gpus 0 --cpus 0 would start all programs at once; valid: more of either")


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
def connected(address: str) -> Generator[str]:
    """Connects to a Ray cluster and yields the address of its dashboard.

    `local` starts a cluster on this machine, which ends with this process; any other is there already, and stays.
    """
    if address not in ("local", "auto"):
        _check_address(address)
    room, ours = {"object_store_memory": OBJECTS} if address == "local" else {}, signal.getsignal(signal.SIGTERM)
    try:
        with warnings.catch_warnings():  # JAX warns that Ray forks; the forked processes never use JAX
            warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
            context = ray.init(address, logging_level="ERROR", log_to_driver=False, **room)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise UsageError(f"--ray {address}: {first_line(error)}; valid: local, or a running cluster") from None
    signal.signal(signal.SIGTERM, ours)  # Ray's handler would print its stack and end the process
    try:
        yield context.dashboard_url or ""
    finally:
        with without_chatter():
            ray.shutdown()


@contextmanager
def without_chatter() -> Generator[None]:
    """Silences what Ray prints of dead workers: each is told in one line here, and the rest is in Ray's logs."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        yield


def _nodes() -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def _granted(asked: Resources) -> Resources:
    """Returns the resources with defaults filled in; raises UsageError where no node has as much, without waiting."""
    totals = [node["Resources"] for node in _nodes()]
    most = {kind: max(total.get(kind, 0.0) for total in totals) for kind in ("GPU", "CPU")}
    gpus = min(1.0, most["GPU"]) if asked.gpus is None else asked.gpus
    cpus = 1.0 if asked.cpus is None else asked.cpus
    if not any(total.get("GPU", 0.0) >= gpus and total.get("CPU", 0.0) >= cpus for total in totals):
        has = f"at most {most['GPU']:g} GPUs and {most['CPU']:g} cores on one node"
        raise UsageError(f"--gpus {gpus:g} --cpus {cpus:g}: no node of the cluster has so much; valid: {has}")
    return Resources(gpus, cpus, asked.storage)


def _on(node: str) -> dict[str, Any]:
    return {"num_cpus": 0, "scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}


def _check_nodes(option: str, place: str) -> None:
    """Raises UsageError unless every node has this code and can write where programs are kept."""
    with ExitStack() as stack:
        try:
            probe = stack.enter_context(storage.probe(place))
        except Exception as error:  # each file system has its own
            what = f"{option} {place} cannot be written: {first_line(error)}"
            raise UsageError(f"{what}; valid: where all nodes can write") from None
        nodes, examine = _nodes(), ray.remote(worker.examine)
        found = ray.get([examine.options(**_on(node["NodeID"])).remote(place, probe) for node in nodes])
    ours = worker.versions()
    for node, (theirs, fault) in zip(nodes, found, strict=True):
        who = f"node {node['NodeManagerHostname']} ({node['NodeID'][:8]})"
        for name in (name for name in ours if theirs[name] != ours[name]):
            what = f"{who} has {name} {theirs[name]}, here it is {ours[name]}"
            raise UsageError(f"{what}; valid: the same code on all nodes")
        if fault:
            raise UsageError(f"{who} cannot write {place}: {fault}; valid: a folder all nodes share, or --storage URL")


def first_line(error: Exception) -> str:
    """Returns the first line of the error that Ray caught, or of Ray's own."""
    return str(getattr(error, "cause", None) or error).strip().partition("\n")[0]


def _outcome(ref: Any) -> tuple[str, str]:
    try:
        return ray.get(ref)
    except ray.exceptions.RayError as error:
        return "failed", f"died {RETRIES + 1} times: {first_line(error)}"


def news(board: Any) -> list[tuple[str, worker.Facts]]:
    """Returns what programs told since the last call; empty where Ray does not answer, since only the view needs it."""
    try:
        return ray.get(board.read.remote(), timeout=ANSWER)
    except ray.exceptions.RayError:
        return []


class OnRay:
    """An executor that runs each task on a node of a Ray cluster."""

    def __init__(self, resources: Resources, dashboard: str = ""):
        for module in (worker, storage):
            ray.cloudpickle.register_pickle_by_value(module)
        self._resources, self._dashboard = _granted(resources), dashboard
        self.share = {"num_gpus": self._resources.gpus, "num_cpus": self._resources.cpus}  # what each program takes

    def order(self, name: str, words: tuple[str, ...], folder: Path, module: str = "vgcrl") -> worker.Order:
        variables = {k: v for k, v in os.environ.items() if k.startswith(HANDED_ON)}
        gpus, _, url = self._resources
        url = url and f"{url}/{folder.name}"
        return worker.Order(name, module, words, str(folder.resolve()), url, gpus or 0.0, variables)

    def board(self, folder: Path, say: Say) -> Any:
        """Checks that all nodes can run the programs, and returns the actor that these report to."""
        folder.mkdir(parents=True, exist_ok=True)
        url = self._resources.storage
        _check_nodes(*(("--out", str(folder.resolve())) if url is None else ("--storage", url)))
        if self._dashboard:
            say(f"Ray's dashboard: http://{self._dashboard}")
        here = _on(ray.get_runtime_context().get_node_id())
        return ray.remote(worker.Board).options(**here, enable_task_events=False).remote()  # not among the programs

    def __call__(self, tasks: list[Task], folder: Path, say: Say) -> list[str]:
        if not tasks:
            return []
        board, submit = self.board(folder, say), ray.remote(worker.run)
        how: dict[str, Any] = {
            "max_retries": RETRIES,
            "retry_exceptions": [OSError],
            **self.share,
        }  # an OSError also tells that its process died
        longest = sorted(tasks, key=lambda task: -task.work)
        orders = [self.order(task.name, task.words, folder, task.module) for task in longest]
        with without_chatter(), View([task.name for task in tasks], say) as view:
            refs = {submit.options(name=order.name, **how).remote(order, board): order for order in orders}
            return self._run(refs, folder, board, view)

    def _run(self, refs: dict[Any, worker.Order], folder: Path, board: Any, view: View) -> list[str]:
        failed, pending = [], list(refs)
        with stop_requests() as stopping:
            while pending and not stopping():
                ended, pending = ray.wait(pending, timeout=1.0)
                view.update(news(board))
                for ref in ended:
                    state, why = _outcome(ref)
                    refs[ref].fetch(whole=state == "done")
                    view.ended(refs[ref].name, state, why)
                    failed += [f"{refs[ref].name}: {why}"] * (state == "failed")
            if pending:
                with stopping.saving:  # takes as long as it takes
                    for ref in pending:  # those that run save; those that wait never start
                        ray.cancel(ref)
                    ray.wait(pending, num_returns=len(pending), timeout=SAVING)
                    for ref in pending:
                        refs[ref].fetch(whole=False)
                raise Stopped(failed)
        return failed
