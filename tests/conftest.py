"""Strict arithmetic for all tests; what takes long is done once: programs are compiled, and runs trained, for all."""

import contextlib
import dataclasses
import fcntl
import functools
import io
import os
from importlib.metadata import version
from pathlib import Path

CACHE = Path(__file__).parent.parent / ".jax_cache"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))  # also for the commands that tests start
# Tests compile more than they run. The older emitters compile in 60 % of the time; a version without them aborts.
FLAGS = ["--xla_backend_optimization_level=0"]
FLAGS += ["--xla_cpu_use_fusion_emitters=false"] if version("jaxlib").startswith("0.10.") else []
os.environ.setdefault("XLA_FLAGS", " ".join(FLAGS))

import jax  # noqa: E402
import pytest  # noqa: E402

from tiny import flags  # noqa: E402
from vgcrl.cli import main  # noqa: E402
from vgcrl.training import program  # noqa: E402

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


NOT_COMPILED = ("steps", "evaluate_every", "checkpoint_every")  # options that only the loop reads


def once(compile_native):
    """Tracing takes as long as compiling: equal configurations of one process share their program."""

    @functools.lru_cache(maxsize=8)
    def compiled(config):
        made = compile_native(config)
        return made._replace(shapes=functools.cache(made.shapes))

    def find(config):
        return compiled(dataclasses.replace(config, **dict.fromkeys(NOT_COMPILED, 1)))._replace(config=config)

    return find


@pytest.fixture(scope="session", autouse=True)
def _programs_compiled_once():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "compile_native", once(program.compile_native))
        yield


def trained_once(tmp_path_factory, name, *words):
    """The folder of a run that all tests of all workers read and none changes."""
    base = tmp_path_factory.getbasetemp()
    root = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with (root / f"{name}.lock").open("w") as lock, contextlib.redirect_stderr(io.StringIO()) as said:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / name / "report.html").exists():
            with contextlib.redirect_stdout(io.StringIO()):
                assert main(["train", *words, "--out", str(root / name), *flags()]) == 0, said.getvalue()
    return root / name


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """DIAYN on the point mass: goals are categories."""
    return trained_once(tmp_path_factory, "trained")


@pytest.fixture(scope="session")
def windy(tmp_path_factory):
    """aGCRL on the windy point mass: goals are states."""
    return trained_once(tmp_path_factory, "windy", "agcrl", "--env", "windy-pointmass")
