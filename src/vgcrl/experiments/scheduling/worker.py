"""What a node does for one task: it runs our command, watches it, and keeps its files where all nodes reach them.

This module and storage.py are sent to the nodes by value, so that a node where vgcrl is missing or different can say
so. They therefore import nothing else but the standard library at the top.
"""

import hashlib
import importlib
import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from vgcrl.experiments.scheduling.storage import Mirror, fault

CHILD = Path("experiments", "scheduling", "child.py")
LOOK = 0.5  # seconds between two looks at the process, and at its files where they go to a URL
MEASURED = ("steps", "steps_per_second", "seconds_left")  # of each run of a program: what PROGRESS finds in a line
PROGRESS = re.compile(r"step +([\d,]+) +([\d,]+) steps/s per run +(?:(\d+) s left|starting)")
STOPPED, ORPHANED, TERMINATED = 130, 137, 143  # exit codes of a process that was ended from outside
Facts = dict[str, Any]  # what a program tells: `node` when it starts there, and what is measured


class Order(NamedTuple):
    """All that a node is told of a task."""

    name: str
    module: str
    words: tuple[str, ...]
    folder: str  # the experiment's; its parent is `--out`
    storage: str | None  # a URL that stands for this folder; None: all nodes share the folder itself
    gpus: float
    environment: dict[str, str]

    def fetch(self, whole: bool) -> None:
        """Copies the program's files from the URL to the folder; without checkpoints unless `whole`."""
        if self.storage is not None:
            Mirror(self.storage, Path(self.folder), self.name).pull(whole)


def installed() -> Path:
    """Returns the folder of the package on this node."""
    spec = importlib.util.find_spec("vgcrl")
    if spec is None or spec.origin is None:
        raise PackageNotFoundError("vgcrl")
    return Path(spec.origin).parent


def code_digest(package: Path) -> str:
    files = {path.relative_to(package).as_posix(): path.read_bytes() for path in package.rglob("*.py")}
    return hashlib.sha256(b"".join(name.encode() + files[name] for name in sorted(files))).hexdigest()


def versions() -> dict[str, str]:
    """Returns the versions that decide whether a node computes the same as another."""
    try:
        digest = code_digest(installed())[:8]
        return {"vgcrl": f"{importlib.import_module('vgcrl').__version__} ({digest})", "jax": version("jax")}
    except PackageNotFoundError as error:
        return {"vgcrl": f"no {error.name or 'vgcrl'}", "jax": "–"}


def examine(place: str, probe: str) -> tuple[dict[str, str], str]:
    """Returns this node's versions, and why it cannot write at `place`, where a probe was left; empty where it can."""
    return versions(), fault(place, probe)


class Board:
    """An actor that collects what programs tell, and says which trial may train which program."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Facts]] = []
        self.owners: dict[str, str] = {}

    def tell(self, name: str, facts: Facts) -> None:
        self.told.append((name, facts))

    def read(self) -> list[tuple[str, Facts]]:
        """Returns what was told since the last call."""
        told, self.told = self.told, []
        return told

    def claim(self, name: str, who: str) -> bool:
        return self.owners.setdefault(name, who) == who


def environment(order: Order) -> dict[str, str]:
    """Returns the variables of the process. Ray itself sets which GPUs it sees; a share of one limits its memory."""
    paths = [str(installed().parent), *filter(None, sys.path)]
    out = {**os.environ, **order.environment, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
    if 0 < order.gpus < 1:
        out["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{0.9 * order.gpus:.3f}"
    if not order.gpus:
        out["JAX_PLATFORMS"] = "cpu"
    return out


def passed_on(stream: Any, name: str, tell: Callable[[Facts], Any], kept: list[str]) -> None:
    """Prints every line to the node's log, keeps the last ones in `kept`, and tells progress, also to Ray's metrics."""
    from ray.util.metrics import Gauge

    gauges = {what: Gauge(f"vgcrl_{what}", "of each run of a program", ("program",)) for what in MEASURED}
    for line in stream:
        print(f"{name}: {line}", end="", flush=True)
        kept[:] = [*kept[-20:], line.strip()] if line.strip() else kept
        if found := PROGRESS.search(line):
            pairs = zip(MEASURED, found.groups(), strict=True)
            facts = {what: int(digits.replace(",", "")) for what, digits in pairs if digits}
            tell(facts)
            for what, value in facts.items():
                gauges[what].set(value, tags={"program": name})


def watched(process: subprocess.Popen, looks: list[Callable[[], None]]) -> int:
    """Waits for the process, calling `looks` meanwhile, and returns its exit code.

    Where the task is cancelled, the process saves and stops before the exception is passed on.
    """
    try:
        while True:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(LOOK)
            for look in looks:
                look()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    finally:
        for look in looks:
            look()


def start(order: Order, folder: Path) -> subprocess.Popen:
    command = [sys.executable, "-P", str(installed() / CHILD), order.module, *order.words, "--out", str(folder.parent)]
    pipe, nowhere, env = subprocess.PIPE, subprocess.DEVNULL, environment(order)
    return subprocess.Popen(
        command, stdin=pipe, stdout=nowhere, stderr=pipe, env=env, encoding="utf-8", errors="replace"
    )


def run(order: Order, board: Any, look: Callable[[Path], None] = lambda folder: None) -> tuple[str, str]:
    """Carries out a task; returns `done` or `failed`, and why it failed.

    Raises ChildProcessError where the process was ended from outside.
    """
    import ray

    if threading.current_thread() is threading.main_thread():  # a trial of Tune is in another
        signal.signal(signal.SIGINT, signal.default_int_handler)  # Ray cancels by it; a script's shell may ignore it
    tell, node = partial(board.tell.remote, order.name), ray.get_runtime_context().get_node_id()
    # not waited for: Ray counts a task that waits as one that needs no core, and starts another
    tell({"node": f"{socket.gethostname()} ({node[:8]})"})
    with ExitStack() as stack:
        folder, looks, kept = Path(order.folder), [], []
        if order.storage is not None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / folder.name
            mirror = Mirror(order.storage, folder, order.name)
            mirror.pull()
            looks.append(mirror.push)
        looks.append(partial(look, folder))
        process = start(order, folder)
        reader = threading.Thread(target=passed_on, args=(process.stderr, order.name, tell, kept))
        reader.start()
        code = watched(process, looks)
        reader.join()
    if code < 0 or code in (STOPPED, ORPHANED, TERMINATED):
        raise ChildProcessError(f"its process ended with {code}")
    told = [line for line in kept if line.startswith(f"{order.module}: ")] or kept or [f"exit code {code}"]
    why = told[-1].removeprefix(f"{order.module}: ").removeprefix(f"{order.name}: ")
    return ("failed", why) if code else ("done", "")
