"""Whether runs fit into memory, told before the compiler or the system aborts because they do not."""

import os
from itertools import pairwise

import jax

from vgcrl.errors import UsageError
from vgcrl.objective.types import EnvSpec
from vgcrl.training.config import Config


def _memory() -> int:
    """Returns the memory of all devices together, in bytes; that of the machine, if devices do not tell."""
    devices = jax.local_devices()
    told = [int((device.memory_stats() or {}).get("bytes_limit", 0)) for device in devices]
    return sum(told) if all(told) else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def least_memory(config: Config, spec: EnvSpec) -> int:
    """Returns the bytes that all runs need at least: for the observations in replay, and one network each."""
    weights = sum(a * b for a, b in pairwise((spec.obs_dim, *config.hidden)))
    return config.runs * ((1 if spec.pixels else 4) * config.replay * spec.obs_dim + 4 * weights)


def check_memory(config: Config, spec: EnvSpec) -> None:
    """Raise UsageError if the runs do not fit into memory."""
    needed, there = least_memory(config, spec), _memory()
    if needed > there:
        raise UsageError(
            f"this does not fit into memory: at least {needed / 2**30:.1f} GiB of {there / 2**30:.1f}; "
            "valid: fewer or smaller runs, environments, networks, replay or observations"
        )
