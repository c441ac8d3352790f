"""Several programs of `vgcrl reproduce` on one body, simulated in one call, so that a GPU has more to do at a time.

    python tools/train_together.py train discrete Humanoid-G10,Humanoid-G20 --engine warp --out results
    python tools/train_together.py examine discrete --out results

Every run learns as it does alone, from its own environments and random numbers. Programs whose numbers of categories
are not far apart also learn in one call: all have the categories of the largest, of which each uses its own number.
`train` saves policies of a few steps under OUT/EXPERIMENT/runs/NAME/looks. `examine`, in a second process, evaluates
each as it comes (`--wait SECONDS`, `--beside PROCESS`), what Warp has trained without a GPU, and writes the run as
training alone does. tools/side_by_side.py runs several groups of programs so.
`vgcrl reproduce EXPERIMENT --program NAME --out OUT`, with the same options, then measures it as it measures any other.
NAME:3-4 trains seeds 3 and 4 of a program; tools/join_seeds.py adds them to the file of those measured before.
There are no checkpoints: Ctrl-C or SIGTERM saves the policies as those of runs of so many steps, which do not go on.
"""

import argparse
import json
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vgcrl.cli.values import PARSERS
from vgcrl.envs.contract import VecState, Vectorised
from vgcrl.errors import UsageError
from vgcrl.experiments import continuous, discrete, grid
from vgcrl.experiments.request import Request
from vgcrl.files import atomic_write
from vgcrl.measure import target_states
from vgcrl.objective.goals import Discrete
from vgcrl.objective.types import Step
from vgcrl.training import policy_file, program, trainer
from vgcrl.training.config import FIELDS, KNOBS, Config
from vgcrl.training.devices import compiler_options
from vgcrl.training.fields import flag
from vgcrl.training.logs import append_line
from vgcrl.training.loop import check_finite
from vgcrl.training.native_program import NativeProgram
from vgcrl.training.program import RunState
from vgcrl.training.resolve import resolve
from vgcrl.training.run_folder import check_free
from vgcrl.training.signals import stop_requests
from vgcrl.training.summary import hardware, summarise, versions

GRIDS = {"discrete": discrete.GRID, "continuous": continuous.GRID}
NEVER = -1e9  # the logit of a category that is not used: its probability is 0, and so is every gradient
VARIES = ("method", "goal_dim", "posterior", "seed", "seeds", *KNOBS)  # between programs trained together
WIDER = 5  # times as many categories as it uses a run may be given, so that not too much is computed for nothing
ITERATIONS, SECONDS = 100, 20  # of one call, and between two lines of progress


class FirstOf(Discrete):
    """The first `count` of `size` categories, uniform."""

    count: Array

    def sample(self, key: Array) -> Array:
        return (jax.random.bits(key) % self.count.astype(jnp.uint32)).astype(jnp.int32)

    def log_prob(self, z: Array) -> Array:
        return -jnp.log(self.count.astype(jnp.float32))


def is_key(x: Any) -> bool:
    return jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def join(trees: Sequence[Any]) -> Any:
    """Runs of several behind each other."""
    return jax.tree.map(lambda *x: jnp.concatenate(x), *trees)


class Learner:
    """Programs whose runs learn in one call; all as wide as the last, which is the widest."""

    def __init__(self, programs: Sequence[NativeProgram]):
        self.programs = programs
        self.configs = [each.config for each in self.programs]
        self.parts = self.programs[-1].parts
        self.shapes = self.programs[-1].shapes()
        self.padded = len(self.configs) > 1
        self.counts = jnp.repeat(
            jnp.array([config.goal_dim for config in self.configs]), jnp.array([config.runs for config in self.configs])
        )

    def parts_of(self, count: Array) -> program.Components:
        """Of a run with so many categories."""
        goals = self.parts.goals
        return self.parts._replace(goals=FirstOf(goals.dim, count)) if self.padded else self.parts

    def missing(self, size: int, config: Config) -> int:
        """Where on an axis of this length, in the program of `config`, numbers of the other categories belong."""
        obs, act, own = self.parts.spec.obs_dim, self.parts.spec.action_dim, config.goal_dim
        return {own: own, obs + own: obs + own, obs + own + act: obs + own}[size]

    def widen(self, config: Config, path: str, x: Array, wide: Array) -> Array:
        for axis in (axis for axis in range(1, x.ndim) if x.shape[axis] != wide.shape[axis]):
            low, high = jnp.split(x, [self.missing(x.shape[axis], config)], axis)
            value = NEVER if path.startswith(".learner.q.") and path.endswith(".bias") else 0.0  # of q's last layer
            shape = (*x.shape[:axis], wide.shape[axis] - x.shape[axis], *x.shape[axis + 1 :])
            x = jnp.concatenate([low, jnp.full(shape, value, x.dtype), high], axis)
        return x

    def narrow(self, config: Config, x: np.ndarray, like: Any) -> np.ndarray:
        for axis in (axis for axis in range(1, x.ndim) if x.shape[axis] != like.shape[axis]):
            first = self.missing(like.shape[axis], config)
            x = np.delete(x, np.s_[first : first + x.shape[axis] - like.shape[axis]], axis)
        return x

    def init(self) -> RunState:
        wide, parts = jax.tree.leaves(self.shapes), []
        for each in self.programs:
            runs = jax.vmap(partial(program.init, each.parts), (0, 0, None))(each.seeds, each.knobs, None)
            named = jax.tree_util.tree_flatten_with_path(runs)[0]
            leaves = [
                x if is_key(x) else self.widen(each.config, jax.tree_util.keystr(path), x, like)
                for (path, x), like in zip(named, wide, strict=True)
            ]
            parts.append(jax.tree.unflatten(jax.tree.structure(self.shapes), leaves))
        return join(parts)

    def policies(self, runs: RunState) -> dict[Config, RunState]:
        """Of each program, as it would be alone."""
        raw = jax.tree.map(lambda x: jax.random.key_data(x) if is_key(x) else x, program.policy(self.configs[-1], runs))
        raw, out, first = jax.tree.leaves(jax.device_get(raw)), {}, 0
        for each in self.programs:
            config, shapes = each.config, program.policy(each.config, each.shapes())
            mine = [x[first : first + config.runs] for x in raw]
            first += config.runs
            leaves = [
                jax.random.wrap_key_data(jnp.asarray(x)) if is_key(like) else self.narrow(config, x, like)
                for x, like in zip(mine, jax.tree.leaves(shapes), strict=True)
            ]
            out[config] = jax.tree.unflatten(jax.tree.structure(shapes), leaves)
        return out


def in_one_call(programs: Sequence[NativeProgram]) -> list[list[NativeProgram]]:
    """Programs of one method with categories by their number, as long as none is much larger than the first; others
    alone."""
    groups: list[list[NativeProgram]] = []
    with_categories = [each for each in programs if isinstance(each.goals, Discrete)]
    for each in sorted(with_categories, key=lambda each: (each.config.method, each.goals.dim)):
        first = groups[-1][0] if groups else None
        if first and each.config.method == first.config.method and each.goals.dim <= WIDER * first.goals.dim:
            groups[-1].append(each)
        else:
            groups.append([each])
    return [[each] for each in programs if each not in with_categories] + groups


class Together:
    """Programs that differ in goals and q only, in one simulation."""

    def __init__(self, configs: Sequence[Config]):
        if not all(config.native for config in configs):
            raise UsageError(f"--engine {configs[0].engine} simulates on the host; valid: mjx, warp")
        programs = [NativeProgram(config) for config in configs]
        self.config, self.parts = configs[0], programs[0].parts
        differs = [name for name in FIELDS if name not in VARIES and len({getattr(x, name) for x in configs}) > 1]
        if differs:
            raise UsageError(
                f"these programs differ in {flag(differs[0])}; valid: in {', '.join(map(flag, VARIES))} only"
            )
        self.learners = [Learner(each) for each in in_one_call(programs)]
        self.runs = sum(config.runs for config in configs)
        self.envs = Vectorised(self.config.build_env(None, self.config.envs * self.runs), self.config.envs)
        self.init = jax.jit(lambda: tuple(learner.init() for learner in self.learners))
        self.advance = jax.jit(self._advance, donate_argnums=0, compiler_options=compiler_options())

    def move(self, state: VecState, action: Array, keys: Array) -> tuple[VecState, Step]:
        """`Vectorised.step` of all runs. Episodes that cannot end early end together: new ones are begun only then."""
        if self.config.terminate:
            return jax.vmap(self.envs.step)(state, action, keys)
        keys = jax.vmap(jax.random.split)(keys)
        each = jax.vmap(lambda key: jax.random.split(key, self.config.envs))(keys[:, 0])
        sim, next_obs, terminal = jax.vmap(jax.vmap(self.envs.env.step))(state.sim, jnp.nan_to_num(action), each)
        now = state.time + 1
        last = now >= self.envs.spec.horizon
        overflows = state.overflows + jax.vmap(jax.vmap(self.envs.env.overflow))(sim).astype(jnp.int32)
        begin: Callable = lambda: jax.vmap(self.envs.reset)(keys[:, 1])  # noqa: E731
        state, obs = jax.lax.cond(last[0, 0], begin, lambda: (VecState(sim, now, overflows), next_obs))
        return state._replace(overflows=overflows), Step(next_obs, obs, terminal, last)

    def step(self, clock: Array, states: tuple[RunState, ...]) -> tuple[RunState, ...]:
        """As `program.step`, of all runs."""
        keys = [jax.vmap(program.keys_at, (0, None))(runs, clock) for runs in states]

        def each(what: Callable[..., Any], *given: Sequence[Any], axis: int = 0) -> list[Any]:
            """what(parts, run, …) of every run; they are this axis of what it returns."""
            of_run = lambda learner: lambda count, *x: what(learner.parts_of(count), *x)  # noqa: E731
            rows = zip(self.learners, states, *given, strict=True)
            return [jax.vmap(of_run(learner), out_axes=axis)(learner.counts, *x) for learner, *x in rows]

        def learn() -> list[Any]:
            """As `program.learn`, but in turns, an update of each learner: their kernels can run side by side."""

            def draw(i: Array, count: int) -> list[Any]:
                batches = lambda p, run, key: program.draw_batches(p, run, jax.random.fold_in(key, i), count)  # noqa: E731
                return each(batches, [key.learn for key in keys], axis=1)

            def update(learning: list[Any], drawn: list[Any]) -> list[Any]:
                return each(lambda p, run, *x: program.update(p, run.knobs, *x), learning, drawn)

            before = list(map(jax.vmap(program.learning), states))
            return list(map(jax.vmap(program.learned), program.all_updates(self.parts.updates, draw, update, before)))

        def part(tree: Any) -> list[Any]:
            ends = np.cumsum([0, *(len(learner.counts) for learner in self.learners)])
            return [jax.tree.map(lambda x, a=a, b=b: x[a:b], tree) for a, b in pairwise(ends)]

        actions = each(lambda p, run, key: program.decide(p, run, clock, key), [key.act for key in keys])
        due = (clock % self.parts.collects == self.parts.collects - 1) & program.enough(
            self.parts, clock // self.parts.collects
        )
        learned = jax.lax.cond(due, learn, lambda: [(runs.learner, runs.info) for runs in states])
        states = tuple(map(jax.vmap(program.adopt), states, learned))
        env, seen = self.move(join([runs.scene.env for runs in states]), join(actions), join([k.env for k in keys]))

        def absorb(p: Any, run: RunState, env: Any, action: Array, out: Step, key: Array) -> RunState:
            return program.absorb(p, run, env, action, out, clock, key)

        return tuple(each(absorb, part(env), actions, part(seen), [key.goals for key in keys]))

    def _advance(self, states: tuple[RunState, ...], first: Array, count: Array) -> tuple[RunState, ...]:
        collects = self.parts.collects
        return jax.lax.fori_loop(first * collects, (first + count) * collects, self.step, states)

    def policies(self, states: tuple[RunState, ...]) -> dict[Config, RunState]:
        each = [learner.policies(runs) for learner, runs in zip(self.learners, states, strict=True)]
        return {config: policy for policies in each for config, policy in policies.items()}


class Facts(NamedTuple):
    """Of the policies saved at one time."""

    step: int
    wall: float  # seconds of training, divided by the programs
    hardware: str
    versions: dict[str, str]


def save(folder: Path, config: Config, policy: RunState, iteration: int, facts: Facts) -> None:
    """The facts last: where they are, all is there."""
    look, text = folder / "looks" / str(facts.step), config.to_json()
    look.mkdir(parents=True, exist_ok=True)
    atomic_write(look / "config.json", text)
    policy_file.save(look, facts.step, policy, {"iteration": iteration, "wall": facts.wall}, config=text)
    atomic_write(look / "facts.json", json.dumps(facts._asdict()))


def train(folders: dict[Config, Path], say: Callable[[str], None]) -> None:
    """Train them to the end, or until asked to stop; policies are saved where they would be evaluated."""
    for folder in folders.values():
        check_free(folder)
    together = Together(list(folders))
    config, size = together.config, together.parts.collects * together.config.envs
    total, every = -(-config.steps // size), -(-config.evaluate_every // size)
    started, said, i, stopped = time.monotonic(), 0.0, 0, False
    states = together.init()
    with stop_requests() as stop:
        while i < total and not stopped:
            count = min(ITERATIONS if i else 1, total - i, every - i % every)
            states = jax.block_until_ready(together.advance(states, i, count))
            for learner, runs in zip(together.learners, states, strict=True):
                check_finite(learner.programs[-1], runs)
            if i == 0:  # what follows is timed without it
                say(f"{together.runs} runs, compiled in {time.monotonic() - started:.0f} s")
                started = said = time.monotonic()
            i += count
            now, stopped = time.monotonic(), stop()
            if i == 1 or i % every == 0 or i == total or stopped:  # the first, so that a fault of saving shows at once
                facts = Facts(i * size, (now - started) / len(folders), hardware(), versions())
                for each, policy in together.policies(states).items():
                    saved = replace(each, steps=min(each.steps, i * size)) if stopped else each
                    save(folders[each], saved, policy, i, facts)
            if now - said > SECONDS or i == total or stopped:
                said, speed = now, i * size * together.runs / (now - started)
                lost = sum(int(runs.scene.env.overflows.sum()) for runs in states)
                say(f"{i * size:,} steps, {now - started:.0f} s, {speed:,.0f} env steps/s in all, overflows {lost}")
    say("stopped" if i < total else "finished")


def examine(runs: Path, programs: dict[str, trainer.Program], say: Callable[[str], None]) -> int:
    """Evaluate what has been saved since, in the order of steps; returns how many policies."""
    looks = [file.parent for file in runs.glob("*/looks/*/facts.json")]
    looks.sort(key=lambda look: int(look.name))
    for look in looks:
        run = look.parent.parent
        facts = json.loads((look / "facts.json").read_text())
        restored, policy, _ = trainer.restore(look, say)
        examiner = programs.setdefault(run.name, restored)  # compiled once
        config = examiner.config
        aims = target_states.for_spec(config.env, examiner.spec, config.evaluate_episodes)
        line = facts | summarise(examiner, jax.device_get(examiner.evaluate(policy, aims)))
        append_line(run / "metrics.jsonl", line)
        for name in ("config.json", "policy.safetensors"):
            (look / name).replace(run / name)
        (look / "facts.json").unlink()
        look.rmdir()
        say(f"{run.name} {facts['step']:,}: {json.dumps(line['mean'])}")
    return len(looks)


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for_policies(runs: Path, wait: float, beside: Sequence[int], say: Callable[[str], None]) -> None:
    """Examine all that come, until these processes have ended and none has come for so many seconds."""
    programs, newest = {}, time.monotonic()
    while True:
        training = any(map(alive, beside))  # asked first: what is saved before it ends is examined
        found = examine(runs, programs, say)
        if found or training:
            newest = time.monotonic()
        elif time.monotonic() - newest >= wait:
            return
        if not found:
            time.sleep(1)


def name_and_seeds(asked: str) -> tuple[str, dict[str, int]]:
    """The options of the seeds asked for; none where all are trained."""
    name, first, last = re.fullmatch(r"(.*?)(?::(\d+)-(\d+))?", asked).groups()
    return name, {} if first is None else {"seed": int(first), "seeds": int(last) - int(first) + 1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for command in ("train", "examine"):
        one = commands.add_parser(command)
        one.add_argument("experiment", choices=GRIDS)
        one.add_argument("--out", type=Path, default=Path("results"))
        if command == "examine":
            one.add_argument("--wait", type=float, default=0, help="seconds without a new policy after which it ends")
            one.add_argument("--beside", type=int, nargs="+", default=(), help="processes that it waits for first")
            continue
        one.add_argument("programs", help="separated by commas, of one body; NAME:FIRST-LAST: these seeds of one")
        one.add_argument("--engine", default="warp")
        for name in ("--steps", "--seeds", "--envs", "--looks"):
            one.add_argument(name, type=int)
        for name in ("--updates-per-step", "--posterior-learning-rate"):
            one.add_argument(name, type=float)
        one.add_argument("--terminate", type=PARSERS[bool], metavar="yes|no", help="episodes end with a fall")
    given = vars(parser.parse_args())
    command, experiment, out = (given.pop(name) for name in ("command", "experiment", "out"))
    runs, say = out / experiment / "runs", partial(print, flush=True)
    if command == "examine":
        wait_for_policies(runs, given["wait"], given["beside"], say)
        return
    words = given.pop("programs").split(",")
    asked = dict(map(name_and_seeds, words))
    if len(asked) < len(words):
        parser.error(f"a program is in {','.join(words)} twice, and has one folder; valid: each once")
    try:
        jobs = {job.name: job for job in grid.jobs(GRIDS[experiment], Request(**given))}
        for name in (name for name in asked if name not in jobs):
            parser.error(f"no program {name} in {experiment}; valid: {', '.join(jobs)}")
        train({resolve(jobs[name].options | seeds): runs / name for name, seeds in asked.items()}, say)
    except UsageError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
