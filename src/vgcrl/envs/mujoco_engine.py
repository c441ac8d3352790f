"""Locomotion on MuJoCo itself, all cores: bit for bit Gymnasium's environments, without its per-step Python."""

from types import SimpleNamespace

import numpy as np

from vgcrl.envs import bodies
from vgcrl.envs.bodies import Task
from vgcrl.envs.contract import Broken, cores, generator
from vgcrl.errors import UsageError, install
from vgcrl.objective.types import Step


class Batch:
    """A `HostEnvs`. The state of a simulation is MuJoCo's integration state, warm start included."""

    def __init__(
        self, task: Task, runs: int, count: int, *, terminate: bool = False, horizon: int, positions: bool = False
    ):
        model = bodies.load(task)
        try:
            from mujoco import batch
        except ImportError:
            raise UsageError(f"--engine mujoco needs mujoco 3.17; valid: {install('mujoco')}") from None
        self.task, self.shape, self.horizon = task, (runs, count), horizon
        self.terminate, self.positions = terminate, positions
        self.spec = bodies.specification(task, model, horizon, positions)
        self.model, self.error = model, batch.SimulationError
        self.sims = batch.Batch(model, runs * count, nthread=cores())
        self.qpos, self.qvel, self.ctrl = (self.sims.bind(name) for name in ("qpos", "qvel", "ctrl"))
        self.rich = {name: self.sims.bind(name) for name in bodies.RICH} if task.rich else {}
        self.time = np.zeros(runs * count, np.int32)

    def _observe(self, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
        fields = {"qpos": self.qpos, "qvel": self.qvel, **self.rich}
        data = SimpleNamespace(**{name: x[rows] for name, x in fields.items()})
        return bodies.observe(self.task, data, self.positions).astype(np.float32)

    def _start(self, rows: np.ndarray, keys: np.ndarray, clock: int) -> None:
        """Starts new episodes in `rows`; every environment has its own place in its run's random numbers."""
        count = self.shape[1]
        for run in np.unique(rows // count):
            mine = rows[rows // count == run]
            random = generator(keys[run], clock)
            position = random.uniform(-1.0, 1.0, (count, self.model.nq))
            velocity = random.standard_normal((count, self.model.nv))
            if not self.task.normal:
                velocity = random.uniform(-1.0, 1.0, (count, self.model.nv))
            place = mine % count
            qpos, qvel = bodies.start(self.task, self.model.qpos0, position[place], velocity[place])
            self.sims.reset(mine, stage=0)
            self.qpos[mine], self.qvel[mine] = qpos, qvel
        self.sims.forward(rows)
        self.time[rows] = 0

    def reset(self, keys: np.ndarray) -> np.ndarray:
        self._start(np.arange(len(self.time)), keys, -1)
        return self._observe().reshape(*self.shape, -1)

    def step(self, action: np.ndarray, keys: np.ndarray, clock: int) -> Step:
        self.ctrl[:] = self.spec.scale(action.reshape(len(self.time), -1).astype(np.float64))
        try:
            self.sims.step(nstep=self.task.frames)
        except self.error as error:
            raise Broken(str(error)) from None
        self.time += 1
        next_obs = self._observe()
        terminal = np.zeros(len(self.time), bool)
        if self.terminate:
            terminal = bodies.unhealthy(self.task, self.qpos, self.qvel)
        last = terminal | (self.time >= self.horizon)
        obs = next_obs
        ended = np.flatnonzero(last)
        if ended.size:
            self._start(ended, keys, clock)
            obs = next_obs.copy()
            obs[ended] = self._observe(ended)
        return Step(*(x.reshape(*self.shape, *x.shape[1:]) for x in (next_obs, obs, terminal, last)))

    def save(self) -> dict[str, np.ndarray]:
        """Returns the states as bits, so that no float64 is rounded when they are written, and the times."""
        return {"sims": self.sims.state.copy().view(np.uint32), "time": self.time.copy()}

    def load(self, saved: dict[str, np.ndarray]) -> bool:
        mine = {name: (x.shape, x.dtype) for name, x in self.save().items()}
        if {name: (x.shape, x.dtype) for name, x in saved.items()} != mine:  # by another engine
            return False
        self.sims.state[:] = np.ascontiguousarray(saved["sims"], np.uint32).view(np.float64)
        self.time[:] = saved["time"]
        return True

    def close(self) -> None:
        pass
