"""Runs shared out over several devices: as on one."""

import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import vgcrl
from tiny import TINY
from vgcrl.training import devices
from vgcrl.training.logs import read_lines
from vgcrl.training.trainer import restore

BODY = {**TINY, "steps": 160, "horizon": 20, "replay": 4000}
CASES = {"pointmass": TINY, "HalfCheetah": BODY}  # the loop inside, and the loop around the parts
SCRIPT = """
import json, sys
from pathlib import Path
import jax, vgcrl
from shared import compiled_once
from vgcrl.training import checkpoint, host_program, run_folder, trainer
for name in ("NativeProgram", "HostProgram"):
    setattr(host_program, name, compiled_once(getattr(host_program, name)))
out = Path(sys.argv[1])
for env, options in json.loads(sys.argv[2]).items():
    vgcrl.train("diayn", env=env, out=out / env, quiet=True, **options)
    config = run_folder.checked_config(out / env)
    program = host_program.compile_config(config)
    text, on_host = config.to_json(), trainer._on_host(config)
    runs, _, saved = checkpoint.newest(out / env, program.shapes(), text, print, on_host)
    after = program.advance(program.enter(runs, saved)[0], 40, 1)
    leaves = jax.tree.leaves(after)
    print(json.dumps([len(jax.devices()), sorted({len(x.sharding.device_set) for x in leaves})]))
"""


@pytest.mark.parametrize(("runs", "count"), [(1, 1), (2, 2), (3, 3), (4, 4), (5, 1), (6, 3), (8, 4)])
def test_shares_are_equal(runs, count, monkeypatch):
    monkeypatch.setattr(jax, "local_devices", lambda: ["a", "b", "c", "d"])
    assert devices.share(runs) == ["a", "b", "c", "d"][:count]


@pytest.mark.slow
def test_two_devices_are_as_one(trained, tmp_path):
    """Two runs: trained, evaluated, saved and taken up again by two devices with one each, and by one with both."""
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=2"
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "two"), json.dumps(CASES)]
    variables = {"XLA_FLAGS": flags, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == [[2, [2]]] * len(CASES)
    body = vgcrl.train("diayn", env="HalfCheetah", out=tmp_path / "one", quiet=True, **BODY).dir
    for env, one in {"pointmass": trained, "HalfCheetah": body}.items():
        (_, a, _), (_, b, _) = (restore(run, print) for run in (one, tmp_path / "two" / env))
        numbers = [x for x in jax.tree.leaves(a) if jax.dtypes.issubdtype(x.dtype, np.number)]
        others = [x for x in jax.tree.leaves(b) if jax.dtypes.issubdtype(x.dtype, np.number)]
        for x, y in zip(numbers, others, strict=True):
            np.testing.assert_allclose(x, y, rtol=2e-3, atol=2e-4)
        ours, theirs = (read_lines(run / "metrics.jsonl")[-1]["mean"]["F"] for run in (one, tmp_path / "two" / env))
        assert theirs == pytest.approx(ours, rel=1e-2, abs=1e-3)
