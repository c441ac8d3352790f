"""The program with native environments: whole iterations run on the device."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from jax import Array

from vgcrl.training import evaluation, program
from vgcrl.training.config import Config
from vgcrl.training.program import Program, RunState


class NativeProgram(Program):
    """A program with native environments.

    `examiner`, if there is one, runs evaluations and recordings instead: the same configuration on an exact engine.
    """

    def __init__(self, config: Config, examiner: Program | None = None):
        super().__init__(config)
        self.examiner = examiner
        p = self.parts
        self._start = self.for_all_runs(partial(program.init, p), axes=(0, 0, None))
        self._advance = self.for_all_runs(partial(program.advance, p), axes=(0, None, None), donate=(0,))
        self._recordings = {
            noise: self.for_all_runs(partial(evaluation.record_episodes, p, noise=noise), axes=(0, None))
            for noise in (False, True)
        }
        self._evaluations: dict[tuple[int, bool], Callable[..., dict[str, Any]]] = {}  # by (episodes, noise)

    def init(self) -> RunState:
        return self._start(self.seeds, self.knobs, None)

    def shapes(self) -> RunState:
        return jax.eval_shape(jax.vmap(partial(program.init, self.parts), (0, 0, None)), self.seeds, self.knobs, None)

    def advance(self, runs: RunState, first: int, count: int) -> RunState:
        return self._advance(runs, first, count)

    def evaluate(
        self, runs: RunState, targets: Array | None = None, episodes: int | None = None, noise: bool = False
    ) -> dict[str, Any]:
        if self.examiner:
            return self.examiner.evaluate(runs, targets, episodes, noise)
        size = count, _ = episodes or self.config.evaluate_episodes, noise
        if size not in self._evaluations:
            measure = partial(evaluation.evaluate, self.parts, count=count, noise=noise)
            self._evaluations[size] = self.for_all_runs(measure, axes=(0, None))
        return self._evaluations[size](runs, targets)

    def record_episodes(self, runs: RunState, z: Array, noise: bool = False) -> Any:
        if self.examiner:
            return self.examiner.record_episodes(runs, z, noise)
        return self._recordings[noise](runs, z)

    def overflows(self, runs: RunState) -> int:
        return int(runs.scene.env.overflows.sum())

    def save_envs(self) -> dict[str, Any]:
        return {}

    def enter(self, runs: RunState, saved: dict[str, Any]) -> tuple[RunState, bool]:
        return runs, True
