"""Strict arithmetic and checked shapes for all tests; compiled programs and two trained runs that they share."""

import ctypes
import os
import signal
import sys
from importlib.metadata import version
from pathlib import Path

CACHE = Path(__file__).parent.parent / ".jax_cache"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))  # also for the commands that tests start
# Tests compile more than they run. The older emitters compile in 60 % of the time, and
# one module costs less than many; a version without these options aborts.
FLAGS = ["--xla_backend_optimization_level=0"]
if version("jaxlib").startswith("0.10."):
    FLAGS += ["--xla_cpu_use_fusion_emitters=false", "--xla_cpu_parallel_codegen_split_count=1"]
os.environ.setdefault("XLA_FLAGS", " ".join(FLAGS))
# Where the machine is busy, nothing is dead because it is slow; Ray reads these when it is imported, and at a start.
PATIENT = dict.fromkeys(("gcs_server_request_timeout_seconds", "worker_register_timeout_seconds"), 600)
PATIENT |= dict.fromkeys(("gcs_rpc_server_connect_timeout_s", "gcs_rpc_server_reconnect_timeout_s"), 600)
PATIENT |= dict.fromkeys(("agent_register_timeout_ms", "grpc_client_keepalive_timeout_ms"), 600_000)
PATIENT |= {"health_check_timeout_ms": 600_000, "py_gcs_connect_timeout_s": 600, "memory_monitor_refresh_ms": 0}
os.environ |= {f"RAY_{name}": str(value) for name, value in PATIENT.items()}

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a script, and so in all that tests start
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # after `nohup`
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

import jax  # noqa: E402
import pytest  # noqa: E402
from jaxtyping import install_import_hook  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

CORE = ["vgcrl.objective", "vgcrl.measure.rollout", "vgcrl.measure.metrics"]
CORE += ["vgcrl.training.program", "vgcrl.training.evaluation", "vgcrl.training.replay"]
# Arguments and results have the shapes and types of the signatures; checking them is about a tenth of the CPU time of
# tests that mostly trace, and nothing once a program is compiled.
install_import_hook(CORE, "beartype.beartype")

from shared import blank, compiled_once, made_once, memory_is_scarce  # noqa: E402
from tiny import flags  # noqa: E402
from vgcrl.cli import main  # noqa: E402
from vgcrl.envs import ENVS, modules, own  # noqa: E402
from vgcrl.objective.methods import METHODS  # noqa: E402
from vgcrl.objective.posteriors import LINEAR, OPTIONS, POSTERIORS  # noqa: E402
from vgcrl.training import host_program  # noqa: E402

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


@pytest.fixture(scope="session", autouse=True)
def _programs_compiled_once():
    with pytest.MonkeyPatch.context() as patch:
        for name in ("NativeProgram", "HostProgram"):
            patch.setattr(host_program, name, compiled_once(getattr(host_program, name)))
        yield


@pytest.fixture(autouse=True)
def _memory_for_others():
    """Where several suites run side by side, what was compiled is forgotten before memory runs out."""
    yield
    if memory_is_scarce():
        jax.clear_caches()
        ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture
def registries_as_they_were():
    """What a test registers is gone after it, with the modules that did it."""
    registries = METHODS, POSTERIORS, LINEAR, OPTIONS, ENVS, modules._owners, own._FACTORIES
    kept, imported = [dict(registry) for registry in registries], set(sys.modules)
    yield
    for registry, before in zip(registries, kept, strict=True):
        registry.clear()
        registry.update(before)
    for name in {"own_method", "my_methods"} & (sys.modules.keys() - imported):
        del sys.modules[name]


@pytest.fixture
def unrendered(monkeypatch):
    """Figures are made and not rendered, for tests of commands that leave some and do not look at them."""
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, format, **_: file.write(blank(format)))


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """DIAYN on the point mass: goals are categories."""
    return made_once(tmp_path_factory, "trained", lambda out: main(["train", "--out", str(out), *flags()]))


@pytest.fixture(scope="session")
def windy(tmp_path_factory):
    """aGCRL on the windy point mass: goals are states."""
    words = ["train", "agcrl", "--env", "windy-pointmass"]
    return made_once(tmp_path_factory, "windy", lambda out: main([*words, "--out", str(out), *flags()]))
