"""What takes long is done once: programs are compiled, and folders made, for all tests of all workers."""

import contextlib
import copy
import dataclasses
import fcntl
import functools
import io
import os

from vgcrl.envs import bodies

NOT_COMPILED = ("steps", "evaluate_every", "checkpoint_every")  # options that only the loop reads


def compiled_part(config):
    return dataclasses.replace(config, **dict.fromkeys(NOT_COMPILED, 1))


def native_once(compile_native):
    """Tracing takes as long as compiling: equal configurations of one process share their program."""

    @functools.lru_cache(maxsize=8)
    def compiled(config):
        made = compile_native(config)
        return made._replace(shapes=functools.cache(made.shapes))

    return lambda config: compiled(compiled_part(config))._replace(config=config)


def host_once(host_class):
    """The same of bodies on the host; each has environments of its own to train in."""
    compiled = functools.lru_cache(maxsize=4)(host_class)

    def find(config):
        if config.native or config.env not in bodies.TASKS:
            return host_class(config)
        host = copy.copy(compiled(compiled_part(config)))
        assert "envs" not in vars(host)
        host.config = config
        return host

    return find


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
