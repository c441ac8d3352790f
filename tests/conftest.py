"""Strict arithmetic for all tests, and compiled programs kept between them."""

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

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
