"""What `vgcrl bench` tells beside its speeds."""

from importlib.metadata import PackageNotFoundError

import jax
import pytest

from vgcrl.bench import speeds
from vgcrl.cli import main


@pytest.fixture(autouse=True)
def _cache_as_it_was():
    kept = jax.config.jax_enable_compilation_cache
    yield
    jax.config.update("jax_enable_compilation_cache", kept)


def test_a_package_that_is_not_there_is_left_out(monkeypatch):
    def version(name):
        if name == "mujoco":
            raise PackageNotFoundError(name)
        return "1"

    for measured in ("bytes_per_second", "products_per_second", "simulation_per_second"):
        monkeypatch.setattr(speeds, measured, lambda *_: 1.0)
    row = {"learner_alone_updates_per_second": 1.0, "runs": 1}
    monkeypatch.setattr(speeds, "training_row", lambda *_: row)
    monkeypatch.setattr(speeds, "version", version)
    monkeypatch.setattr(speeds, "find_spec", lambda name: None if name == "mujoco" else name, raising=False)
    found = speeds.bench(None, "pointmass", ("jax",), (1,), (10,), None, None, 0.1)
    assert found["versions"] == {"jax": "1", "jaxlib": "1"}


def test_a_plot_makes_its_folder(monkeypatch, tmp_path):
    row = {"runs": 1, "goal_dim": 10, "updates_per_second": 100.0}
    monkeypatch.setattr(speeds, "bench", lambda *_: {"training": [row]})
    plot = tmp_path / "new" / "folder" / "speeds.png"
    assert main(["bench", "--plot", str(plot)]) == 0
    assert plot.read_bytes().startswith(b"\x89PNG")
