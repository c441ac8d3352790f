"""What a node does for one task: our command in a process of its own, watched, and its files kept where all reach them.

Sent to the nodes by value, so that one whose vgcrl is another, or missing, can say so: at the top only the standard
library is imported.
"""

import hashlib
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable
from contextlib import ExitStack, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from vgcrl.experiments.scheduling.storage import Mirror

CHILD = Path("experiments", "scheduling", "child.py")
LOOK = 0.5  # seconds between two looks at the process, and at its files where they go to a URL
PROGRESS = re.compile(r"step +([\d,]+) +([\d,]+) steps/s per run +(.+? left|starting)")
HEARD = 5.0  # seconds that the board has to hear of a start
STOPPED, ORPHANED, TERMINATED = 130, 137, 143  # exit codes of a process that was ended from outside
Tell = Callable[[dict[str, Any]], None]  # facts of a program: see view.View


class Order(NamedTuple):
    """All that a node is told of a task."""

    name: str
    module: str
    words: tuple[str, ...]
    folder: str  # of the experiment, in a parent that is `--out`
    storage: str | None  # a URL that stands for this parent; else all nodes share it
    gpus: float
    environment: dict[str, str]


def installed() -> Path:
    """The package on this node."""
    spec = importlib.util.find_spec("vgcrl")
    if spec is None or spec.origin is None:
        raise PackageNotFoundError("vgcrl")
    return Path(spec.origin).parent


def code_digest(package: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def node_facts(probe: str | None) -> dict[str, Any]:
    """What decides whether a node computes the same as another; and whether it sees a file."""
    try:
        of = {"vgcrl": f"{version('vgcrl')} ({code_digest(installed())[:8]})", "jax": version("jax")}
    except PackageNotFoundError as error:
        of = {"vgcrl": f"no {error.name or 'vgcrl'}", "jax": "–"}
    return of | {"sees": probe is None or Path(probe).exists()}


class Board:
    """An actor that knows where every program is."""

    def __init__(self) -> None:
        self.facts: dict[str, dict[str, Any]] = {}

    def tell(self, name: str, facts: dict[str, Any]) -> None:
        self.facts.setdefault(name, {}).update(facts)

    def read(self) -> dict[str, dict[str, Any]]:
        return self.facts


def here() -> str:
    """A node as it is shown: its host, and the beginning of its name in the cluster."""
    import ray

    return f"{socket.gethostname()} ({ray.get_runtime_context().get_node_id()[:8]})"


def environment(order: Order) -> dict[str, str]:
    """Of the process. Ray itself says which GPUs it sees; a share of one is a share of its memory."""
    paths = [str(installed().parent), *filter(None, sys.path)]
    out = {**os.environ, **order.environment, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
    if 0 < order.gpus < 1:
        out["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{0.9 * order.gpus:.3f}"
    if not order.gpus:
        out["JAX_PLATFORMS"] = "cpu"
    return out


def passed_on(stream: Any, name: str, tell: Tell, kept: list[str]) -> None:
    """Every line to the node's log, the last ones kept, progress told and given to Ray's metrics."""
    from ray.util.metrics import Gauge

    speed = Gauge("vgcrl_steps_per_second", "of each run of a program", tag_keys=("program",))
    step = Gauge("vgcrl_steps", "environment steps of each run so far", tag_keys=("program",))
    for line in stream:
        print(f"{name}: {line}", end="", flush=True)
        kept[:] = [*kept[-20:], line.strip()] if line.strip() else kept
        if found := PROGRESS.search(line):
            steps, pace = (int(x.replace(",", "")) for x in found.groups()[:2])
            tell({"step": steps, "speed": pace, "left": found[3]})
            step.set(steps, tags={"program": name})
            speed.set(pace, tags={"program": name})


def watched(process: subprocess.Popen, looks: list[Callable[[], None]]) -> int:
    """To its end, or to that of the task: then it saves and stops. Its exit code."""
    try:
        while True:
            try:
                return process.wait(LOOK)
            except subprocess.TimeoutExpired:
                for look in looks:
                    look()
    except BaseException:
        process.send_signal(signal.SIGTERM)
        process.wait()
        raise
    finally:
        for look in looks:
            look()


def start(order: Order, folder: Path) -> subprocess.Popen:
    command = [sys.executable, "-P", str(installed() / CHILD), order.module, *order.words]
    return subprocess.Popen(
        [*command, "--out", str(folder.parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(order),
        text=True,
        errors="replace",
    )


def run(order: Order, tell: Tell, look: Callable[[Path], None]) -> tuple[str, str]:
    """`done` or `failed`, and why. Raises ChildProcessError where the process was ended from outside."""
    tell({"state": "runs", "node": here(), "attempt": uuid.uuid4().hex})
    with ExitStack() as stack:
        folder, kept = Path(order.folder), []
        looks: list[Callable[[], None]] = [lambda: look(folder)]
        if order.storage is not None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / folder.name
            mirror = Mirror(f"{order.storage}/{folder.name}", folder, order.name)
            mirror.pull()
            looks.append(mirror.push)
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


def work(order: Order, board: Any) -> tuple[str, str]:
    """A Ray task."""
    import ray

    def tell(facts: dict[str, Any]) -> None:
        told = board.tell.remote(order.name, facts)
        if "attempt" in facts:  # before it does anything, unless nobody listens any more
            with suppress(ray.exceptions.RayError):
                ray.get(told, timeout=HEARD)

    return run(order, tell, lambda folder: None)


def rounded(values: dict[str, Any]) -> dict[str, Any]:
    """Numbers of a trial, as a person would give them."""
    return {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in values.items()}


def trial_name(values: dict[str, Any]) -> str:
    return "-".join(f"{k.replace('_', '-')}={v}" for k, v in values.items()).replace("/", "_")


def trial(values: dict[str, Any], order: Order, metric: str) -> None:
    """A trial of Ray Tune: a program whose evaluations are reported, also those from before it was stopped."""
    from ray import tune

    values, reported = rounded(values), 0
    flags = [word for k, v in values.items() for word in (f"--{k.replace('_', '-')}", str(v))]
    name = trial_name(values)

    def report(folder: Path) -> None:
        nonlocal reported
        path = folder / "runs" / name / "metrics.jsonl"
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        for line in map(json.loads, lines[reported:]):
            if line["mean"][metric] is not None:  # of one that has diverged
                tune.report({metric: line["mean"][metric], "step": line["step"]})
        reported = max(reported, len(lines))

    run(order._replace(name=name, words=(*order.words, *flags, "--program", name)), lambda facts: None, report)
