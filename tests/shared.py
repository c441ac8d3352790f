"""What takes long is done once: programs are compiled, and folders made, for all tests of all workers."""

import contextlib
import copy
import dataclasses
import fcntl
import functools
import io
import os
import resource
from pathlib import Path

from PIL import Image

from vgcrl.envs import bodies
from vgcrl.training.host_program import HostProgram
from vgcrl.training.program import run_axis

# Options that only the loop reads, or that are given to what is compiled.
NOT_COMPILED = ("steps", "evaluate_every", "checkpoint_every", "log_every", "seed")
RATES = ("learning_rate", "posterior_learning_rate")


def compiled_once(program_class):
    """Tracing takes as long as compiling: equal configurations of one process share what they compiled.

    Each program has environments of its own to train in. Those that a test makes up are left out.
    """

    @functools.lru_cache(maxsize=32)
    def compiled(config):
        made = program_class(config)
        made.shapes = functools.cache(made.shapes)
        return made

    def find(config, *examiner):
        on_host = config.env in bodies.TASKS or config.env.startswith("foreign_envs:")
        if (program_class is HostProgram) != on_host:
            return program_class(config, *examiner)
        rates = {name: tuple(1.0 for _ in getattr(config, name)) for name in RATES}
        made = copy.copy(compiled(dataclasses.replace(config, **dict.fromkeys(NOT_COMPILED, 1), **rates)))
        assert "envs" not in vars(made)
        made.config, (made.seeds, made.knobs) = config, run_axis(config)
        return made

    return find


def memory_is_scarce(most=1 << 30, least=5 << 30):
    """Whether this process holds much while the machine has little left, in bytes; not known without /proc."""
    try:
        held = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
        left = int(Path("/proc/meminfo").read_text().partition("MemAvailable:")[2].split()[0]) << 10
    except (OSError, IndexError):
        return False
    return held > most and left < least


@functools.cache
def blank(format):
    """The smallest picture: the text of an SVG, or the bytes of a PNG."""
    if format == "svg":
        return "<svg/>"
    buffer = io.BytesIO()
    Image.new("L", (1, 1)).save(buffer, format)
    return buffer.getvalue()


def made_once(tmp_path_factory, name, make):
    """A folder, filled by the first test of any worker that needs it, silently; no test may change it."""
    base = tmp_path_factory.getbasetemp()
    root = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    done = root / f"{name}.done"
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
                assert make(root / name) == 0, said.getvalue()
            done.touch()
    return root / name
