"""Training without a folder: compile once, then advance and evaluate in your own loop.

program = vgcrl.compile("diayn", env="pointmass", seeds=2)
state = program.init()
while state.iteration * program.steps_per_iteration < 50_000:
    state = program.advance(state, 100)
    print(program.evaluate(state)["mean"]["F"])
action = program.policy(state).act(obs, goal_state=target)
"""

import weakref
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, Unpack

import jax

from vgcrl.measure import target_states
from vgcrl.training.config import Config
from vgcrl.training.fields import LARGEST, is_whole
from vgcrl.training.host_program import compile_config
from vgcrl.training.loop import check_finite
from vgcrl.training.memory import check_memory
from vgcrl.training.program import RunState
from vgcrl.training.resolve import resolve
from vgcrl.training.summary import summarise
from vgcrl.use.evaluate import check_episodes
from vgcrl.use.given import TrainOptions, spelled_out, to_options
from vgcrl.use.policy import Policy, policy_of


class TrainingState(NamedTuple):
    """All runs, a pytree with the runs as first axis of every array, and the iterations trained."""

    runs: RunState
    iteration: int


def _form(runs: RunState) -> tuple[Any, list[tuple[int, ...]]]:
    """Returns structure and shapes of the runs."""
    leaves, structure = jax.tree.flatten(runs)
    return structure, [x.shape for x in leaves]


class CompiledTraining:
    """A training to advance in your own loop, as `vgcrl.compile` returns it. It writes no file and handles no signal.

    `advance` consumes the state that it is given: afterwards only the state that it returns can be used.
    """

    def __init__(self, config: Config):
        self.config, self._program = config, compile_config(config)
        check_memory(config, self._program.spec)
        self._latest: Callable[[], Any] = lambda: None
        self._newest: TrainingState | None = None  # the state that environments on the host are in, if there are any

    @cached_property
    def _own_form(self) -> Any:
        return _form(self._program.shapes())

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps of each run in one iteration."""
        return self._program.steps_per_iteration

    def init(self) -> TrainingState:
        """Returns all runs before their first step."""
        return self._remember(TrainingState(self._program.init(), 0))

    def advance(self, state: TrainingState, n: int = 1) -> TrainingState:
        """Returns the state after n more iterations; does not wait for them where environments run in JAX."""
        self._check(state)
        most = LARGEST // self.steps_per_iteration - state.iteration
        if not is_whole(n) or not 1 <= n <= most:
            raise ValueError(f"n {n!r} is not valid; valid: a whole number of iterations, here from 1 to {most}")
        if not self.config.native and state is not self._newest:
            raise ValueError(
                f"the environments of {self.config.env} run on the host and have gone on: "
                "give the state that init or advance returned last"
            )
        runs = self._program.advance(state.runs, state.iteration, int(n))
        return self._remember(TrainingState(runs, state.iteration + int(n)))

    def evaluate(self, state: TrainingState, targets: Any = None, episodes: int | None = None) -> dict[str, Any]:
        """Returns a dict of metrics: of each run ("seeds"), their "mean" and "ci95".

        `targets` (target, observation) are target states for LGR(s). By default they are those of the package for a
        robot, at most as many as episodes, and for other environments their own goals or start states.
        """
        check_episodes(episodes)
        self._check(state)
        check_finite(self._program, state.runs)
        spec = self._program.spec
        wanted = (
            target_states.for_spec(self.config.env, spec, episodes or self.config.evaluate_episodes)
            if targets is None
            else target_states.from_rows("targets", spec.rows(targets), spec.obs_dim, spec.obs_shape)
        )
        out = jax.device_get(self._program.evaluate(state.runs, wanted, episodes))
        return summarise(self._program, out)

    def policy(self, state: TrainingState, seed: int | None = None, setting: int | None = None) -> Policy:
        """Returns the policy of one seed, by default the first; it does not change when training goes on.

        If several settings are trained together, `setting` chooses one, counted from 0.
        """
        self._check(state)
        return policy_of(self._program, state.runs, seed, setting)

    def _check(self, state: TrainingState) -> None:
        """Raise ValueError unless the state is one of this program; the latest is recognised by one of its arrays."""
        if (
            not isinstance(state, TrainingState)
            or not isinstance(state.runs, RunState)
            or not (is_whole(state.iteration) and state.iteration >= 0)
            or (state.runs.fault is not self._latest() and _form(state.runs) != self._own_form)
        ):
            raise ValueError("the state is not one of this program; valid: what its init or advance returned")
        if isinstance(state.runs.fault, jax.Array) and state.runs.fault.is_deleted():
            raise ValueError("the state was consumed by an earlier advance; valid: what that returned")

    def _remember(self, state: TrainingState) -> TrainingState:
        self._latest = weakref.ref(state.runs.fault)
        self._newest = None if self.config.native else state
        return state


@spelled_out
def compile(
    method: str = "diayn",
    *,
    env: Any = "pointmass",
    env_kwargs: dict[str, Any] | None = None,
    steps: int | None = None,
    seeds: int | None = None,
    **options: Unpack[TrainOptions],
) -> CompiledTraining:
    """Returns a training of `method` to advance in your own loop; nothing is written. Arguments are those of `train`.

    Examples:
        >>> program = vgcrl.compile("diayn", env="pointmass", seeds=2)
        >>> state = program.advance(program.init(), 100)
        >>> program.evaluate(state)["mean"]["F"]
    """
    given = {"method": method, "env": env, "env_kwargs": env_kwargs, "steps": steps, "seeds": seeds, **options}
    return CompiledTraining(resolve(to_options(given)))
