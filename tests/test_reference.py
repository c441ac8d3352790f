"""What one update, one step and one evaluation compute, beside the same written out.

States differ from their successors, target critics from critics, terminations from time limits, relabelled goals from
those pursued: so that whatever is mistaken for another shows.
"""

from dataclasses import replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import foreign_envs  # noqa: F401
from vgcrl.envs.bodies import TASKS
from vgcrl.envs.contract import Env, Vectorised
from vgcrl.envs.mujoco_engine import Batch
from vgcrl.measure import metrics, rollout
from vgcrl.objective import learner
from vgcrl.objective.agents.base import Agent
from vgcrl.objective.agents.sac import sac
from vgcrl.objective.agents.sac_discrete import sac_discrete
from vgcrl.objective.distributions import Normal
from vgcrl.objective.goals import cube
from vgcrl.objective.networks import Linear
from vgcrl.objective.posteriors import POSTERIORS, Build, PosteriorView, Standardiser
from vgcrl.objective.relabel import RELABELS
from vgcrl.objective.types import EnvSpec, Knobs, Step, Transition
from vgcrl.training import program, replay
from vgcrl.training.host_program import compile_config
from vgcrl.training.options import Options
from vgcrl.training.program import run_axis
from vgcrl.training.resolve import resolve

KEY = jax.random.key(0)
add = jax.jit(replay.add)
KEYS = jax.random.split(KEY, 16)
DISCOUNT, TAU, ENTROPY = 0.9, 0.25, -1.5
FIRST = 0.1  # of a gradient, what Adam's first moment is after one step


def close(x, y):
    np.testing.assert_allclose(x, y, rtol=2e-4, atol=1e-5)


# One update of soft actor-critic.


def both(critics, x, width):
    """ψ of both critics, (critic, example, number)."""
    nets = [jax.tree.map(lambda leaf, i=i: leaf[i], critics) for i in (0, 1)]
    return jnp.stack([jax.vmap(net)(x) for net in nets]).reshape(2, len(x), -1, width)


def squashed(actor, x, noise):
    """Actions under a tanh and their log-densities, by the change of variables."""
    mean, log_std = jnp.split(jax.vmap(actor)(x), 2, axis=1)
    std = jnp.exp(jnp.clip(log_std, -5, 2))
    u = mean + std * noise
    density = jax.scipy.stats.norm.logpdf(u, mean, std) - jnp.log(1 - jnp.tanh(u) ** 2)
    return jnp.tanh(u), density.sum(axis=1)


def of_the_smaller(psi, w):
    """ψ (critic, example, number) of the critic that values each example less."""
    q = (psi * w[None]).sum(axis=-1)
    return jnp.where((q[0] < q[1])[..., None], psi[0], psi[1])


def losses_of_vectors(params, target_critics, state, x, after, batch, cumulant, w, noise):
    actor, critics, _ = params
    width, alpha = w.shape[1], jnp.exp(state.log_alpha)
    beside = lambda net, s, a: both(net, jnp.concatenate([s, a], axis=1), width)[:, :, 0]  # noqa: E731
    following, density = squashed(state.actor, after, noise[1])
    future = of_the_smaller(beside(target_critics, after, following), w)
    future = future.at[:, -1].add(-alpha * density)
    target = cumulant + DISCOUNT * jnp.where(batch.terminal[:, None], 0, future)
    critic = 0.5 * ((beside(critics, x, batch.action) - target[None]) ** 2).sum(axis=(0, 2)).mean()
    now, density = squashed(actor, x, noise[0])
    value = (beside(state.critics, x, now) * w[None]).sum(axis=-1).min(axis=0)
    return critic, (alpha * density - value).mean(), -density


def losses_of_categories(params, target_critics, state, x, after, batch, cumulant, w, noise):
    actor, critics, _ = params
    width, alpha = w.shape[1], jnp.exp(state.log_alpha)
    weights = w[:, None].repeat(batch.action.shape[1], axis=1)

    def policy(net, s):
        pi = jax.nn.softmax(jax.vmap(net)(s))
        return pi, jnp.log(pi)

    pi, log_pi = policy(state.actor, after)
    each = of_the_smaller(both(target_critics, after, width), weights)
    future = (pi[..., None] * each.at[..., -1].add(-alpha * log_pi)).sum(axis=1)
    target = cumulant + DISCOUNT * jnp.where(batch.terminal[:, None], 0, future)
    taken = both(critics, x, width)[:, jnp.arange(len(x)), batch.action.argmax(axis=1)]
    critic = 0.5 * ((taken - target[None]) ** 2).sum(axis=(0, 2)).mean()
    pi, log_pi = policy(actor, x)
    value = (both(state.critics, x, width) * weights[None]).sum(axis=-1).min(axis=0)
    return critic, (pi * (alpha * log_pi - value)).sum(axis=1).mean(), -(pi * log_pi).sum(axis=1)


@pytest.mark.parametrize("width", [1, 3], ids=["scalar", "successor features"])
@pytest.mark.parametrize(("build", "losses"), [(sac, losses_of_vectors), (sac_discrete, losses_of_categories)])
def test_an_update_of_soft_actor_critic(build, losses, width):
    """The gradients of the losses written out, and target critics that follow slowly."""
    size, actions = 32, 3
    settings = {"hidden": (8,), "discount": DISCOUNT, "target_rate": TAU, "target_entropy": ENTROPY}
    agent = build(2, actions, lambda z: z, 1, initial_alpha=0.3, cumulant_dim=width, **settings)
    state = agent.init(KEY)
    state = state._replace(target_critics=jax.tree.map(lambda leaf: -1.7 * leaf, state.critics))
    s, after, action = (jax.random.normal(key, (size, n)) for key, n in zip(KEYS[:3], (2, 2, actions), strict=True))
    z, cumulant = (jax.random.normal(key, (size, n)) for key, n in zip(KEYS[3:5], (1, width), strict=True))
    w = jnp.concatenate([jax.random.normal(KEYS[5], (size, width - 1)), jnp.ones((size, 1))], axis=1)
    noise = jax.random.normal(KEYS[6], (2, size, actions))
    batch = Transition(s, jnp.tanh(action), after, z, jnp.arange(size) % 3 == 0)
    out, told = jax.jit(agent.update)(state, batch, cumulant, w, jnp.float32(1e-3), noise)

    x, next_x = jnp.concatenate([s, z], axis=1), jnp.concatenate([after, z], axis=1)
    given = (state.target_critics, state, x, next_x, batch, cumulant, w, noise)

    def total(params):
        critic, actor, entropy = losses(params, *given)
        whole = critic + actor + params[2] * (jax.lax.stop_gradient(entropy).mean() - ENTROPY)
        return whole, (critic, actor, entropy)

    params = state.actor, state.critics, state.log_alpha
    gradients, (critic, actor, entropy) = jax.jit(jax.grad(total, has_aux=True))(params)
    for gradient, moment in zip(*map(jax.tree.leaves, (gradients, out.optimiser.mu)), strict=True):
        close(moment, FIRST * gradient)
    close(told["critic_loss"].mean(), critic)
    close(told["actor_loss"].mean(), actor)
    close(told["entropy"], entropy)
    slow = zip(*map(jax.tree.leaves, (state.target_critics, out.critics, out.target_critics)), strict=True)
    for before, critics, now in slow:
        close(now, (1 - TAU) * before + TAU * critics)


# What the learner hands to the agent, and what it fits q to.


@pytest.mark.parametrize(("how", "progress", "bonus"), [("her", False, 0.0), ("none", True, 0.0), ("her", True, 2.0)])
def test_an_update_of_the_learner(how, progress, bonus):
    """The agent is given the relabelled goal and its reward, q is fitted to the goal that was pursued."""
    build, sigma = Build(2, 2, (), Linear, 0.7, 1, 5.0), 0.7
    q = PosteriorView(POSTERIORS["state-global"](KEY, build), (0, 1))
    s, after, later = (jax.random.normal(key, (6, 3)) for key in KEYS[:3])
    pursued = jnp.full((6, 2), 0.3)
    seen = {}

    def record(state, batch, cumulant, w, rate, noise):
        seen.update(batch=batch, cumulant=cumulant, w=w)
        return state, {}

    nothing = [None] * 3
    agent = Agent(lambda key: (), *nothing, record, None)
    knobs = Knobs(*map(jnp.float32, (1e-3, 1e-2, 1.0, np.inf, 0)))
    state = learner.init(q, agent, KEY)
    batch = Transition(s, jnp.zeros((6, 1)), after, pursued, jnp.zeros(6, bool))
    parts = {"agent": agent, "goals": cube(2), "how": RELABELS[how], "critic": learner.scalar}
    draws = learner.draw(KEY, 6, 1)
    out, told = learner.update(state, batch, later, knobs, draws, **parts, bonus=bonus, progress=progress)

    def gain(states, z):
        """log q(z|s) − log p(z), of the uniform prior on [−1, 1]²."""
        return stats.norm(states[:, :2], sigma).logpdf(z).sum(axis=1) + 2 * np.log(2)

    z = later[:, :2] if how == "her" else pursued
    close(seen["batch"].z, z)
    close(seen["batch"].obs, s)
    close(seen["batch"].next_obs, after)
    close(seen["w"], 1)
    close(seen["cumulant"][:, 0], gain(after, z) - (gain(s, z) if progress else 0) + bonus)
    close(told["F"], gain(after, pursued))
    close(told["reward"], gain(after, z) - (gain(s, z) if progress else 0))
    fit = jax.grad(lambda q: -jnp.mean(jax.vmap(lambda s, z: q(s).log_prob(z))(after, pursued)))(q)
    close(out.optimiser.mu.q.scale.value, FIRST * fit.q.scale.value)


# One step of a program.

SIZES = {"envs": 4, "hidden": (8,), "batch": 8, "replay": 1000, "seeds": 1, "evaluate_episodes": 4}


@pytest.fixture(scope="module")
def points():
    """Two updates in an iteration of one step; eight random steps of each environment."""
    sizes = {**SIZES, "random_steps": 32, "updates_per_step": 0.5, "horizon": 5}
    made = compile_config(resolve(Options("gcrl", "pointmass", **sizes, relabel="her", relabel_state="later")))
    return made.parts, jax.tree.map(lambda x: x[0], made.init())


def test_actions_are_random_at_first(points):
    p, run = points
    noise = jax.random.normal(KEY, (4, p.spec.action_dim))
    random = jax.vmap(p.agent.random)(noise)
    chosen = jax.vmap(p.agent.act, (None, 0, 0, 0))(run.learner.agent, run.scene.obs, run.scene.z, noise)
    assert not np.allclose(random, chosen)
    close(program.decide(p, run, jnp.int32(7), KEY), random)
    close(program.decide(p, run, jnp.int32(8), KEY), chosen)


def test_what_a_step_leaves(points):
    """A time limit is no termination; a new goal is drawn where an episode ended, however it did."""
    p, run = points
    next_obs, obs = (jax.random.uniform(key, (4, p.spec.obs_dim)) for key in KEYS[:2])
    terminal, last = (jnp.array(x, bool) for x in ([0, 1, 0, 0], [0, 1, 1, 0]))
    action = jax.random.normal(KEYS[2], (4, p.spec.action_dim))
    out = program.absorb(p, run, run.scene.env, action, Step(next_obs, obs, terminal, last), jnp.int32(0), KEYS[3])
    np.testing.assert_array_equal(out.replay.terminal[0], terminal)
    np.testing.assert_array_equal(out.replay.obs[0], run.scene.obs)
    np.testing.assert_array_equal(out.replay.obs[1], next_obs)
    np.testing.assert_array_equal(out.replay.action[0], action)
    np.testing.assert_array_equal(out.replay.z[0], run.scene.z)
    np.testing.assert_array_equal(out.replay.head, [1, 2, 2, 1])
    np.testing.assert_array_equal(out.scene.obs, obs)
    np.testing.assert_array_equal((out.scene.z != run.scene.z).any(axis=1), last)


@pytest.mark.parametrize("asked", replay.RELABEL_STATES)
def test_the_state_for_relabelling_is_the_one_asked_for(points, asked):
    p, run = points
    for t in range(10):  # two episodes; observations tell the time
        now, after = (jnp.full((4, p.spec.obs_dim), float(x)) for x in (t, t + 1))
        step = Transition(now, jnp.zeros((4, p.spec.action_dim)), after, run.scene.z, jnp.zeros(4, bool))
        run = run._replace(replay=add(run.replay, step, jnp.full(4, t % 5 == 4)))
    config = replace(p.config, relabel_state=asked, batch=500)
    draw = jax.jit(partial(program.draw_batches, p._replace(config=config), count=1))
    batches, later, _ = draw(run, KEY)
    pairs = {(int(a), int(b)) for a, b in zip(batches.obs[0, :, 0], later[0, :, 0], strict=True)}
    of = {
        "episode": lambda t: range(t // 5 * 5, t // 5 * 5 + 6),
        "later": lambda t: range(t + 1, t // 5 * 5 + 6),
        "final": lambda t: [t // 5 * 5 + 5],
    }[asked]
    assert pairs == {(t, s) for t in range(10) for s in of(t)}


@pytest.mark.parametrize(
    ("env", "updates_per_step", "random_steps", "counts"),
    [
        ("pointmass", 0.5, 32, [0, 0, 0, 0, 0, 0, 0, 0, 2, 4]),  # two after each step of four environments
        ("pointmass", 0.125, 4, [0, 1, 2, 3]),  # one after two steps, of eight transitions: as many as a batch has
        ("foreign_envs:Ship", 0.125, 4, [0, 1, 2, 3]),
        ("foreign_envs:Ship", 0.5, 12, [0, 0, 0, 2, 4]),
    ],
)
def test_so_many_updates_are_made(env, updates_per_step, random_steps, counts):
    """None before there are random steps and a batch, then those asked for."""
    sizes = {**SIZES, "random_steps": random_steps, "updates_per_step": updates_per_step, "horizon": 5}
    made = compile_config(resolve(Options("diayn", env, **sizes, goal_dim=3)))
    runs = made.init()
    for i, count in enumerate(counts):
        runs = made.advance(runs, i, 1)
        assert runs.learner.optimiser.count.tolist() == [count], i
        assert runs.learner.agent.optimiser.count.tolist() == [count], i
        if count == 1:  # what is told of an update is a mean over its batch
            close(runs.info["alpha"], made.config.initial_alpha)


def test_a_bound_of_0_is_none():
    config = resolve(Options("diayn", "pointmass", **SIZES, spectral_norm=(0.0, 2.0), horizon=5))
    assert run_axis(config)[1].spectral_norm.tolist() == [np.inf, 2.0]


def test_policy_improvement_takes_the_goal_whose_action_is_the_best_by_the_smaller_critic():
    config = resolve(Options("visr", "pointmass", **SIZES, gpi=3, horizon=5))
    made = compile_config(config)
    p, run = made.parts, jax.tree.map(lambda x: x[0], made.init())
    obs, z = run.scene.obs[0], run.scene.z[0]
    w = np.asarray(learner.successor(run.learner.q, p.goals, run.learner.q(obs), z)[1])
    worth = iter([(1.0, 1.0), (9.0, 0.0), (3.0, 2.0), (5.0, -4.0)])
    psi = [np.stack([value * w / (w @ w) for value in pair]) for pair in worth]
    goals = jnp.concatenate([z[None], jax.vmap(p.goals.sample)(jax.random.split(program.key_of_seed(0), 3))])

    def successors(state, obs, action, goal):
        return jnp.asarray(np.stack(psi))[jnp.argmin(((goals - goal[None]) ** 2).sum(axis=1))]

    p = p._replace(agent=p.agent._replace(successors=successors))
    close(program.improved_goal(p, run, obs, z), goals[2])


def test_a_place_that_is_not_to_be_seen_is_not_seen():
    options = {**SIZES, "replay": 10_000, "positions": True, "relative_goals": True, "features": "place"}
    p = compile_config(resolve(Options("gcrl", "Ant", engine="mujoco", **options))).parts
    state, obs, z = p.agent.init(KEY), jax.random.normal(KEY, (p.spec.obs_dim,)), jnp.ones(2)
    moved = obs.at[jnp.array(p.spec.place)].add(3.0)
    close(p.agent.best(state, obs, z), p.agent.best(state, moved, z + 3.0))
    assert not np.allclose(p.agent.best(state, obs, z), p.agent.best(state, obs, z + 3.0), atol=1e-4)


# Replay that is cut, and environments that start anew.


def test_what_follows_a_cut_does_not_follow_from_what_was_before():
    example = Transition(*(jnp.zeros((1, n)) for n in (1, 1, 1, 1)), jnp.zeros(1, bool))
    buffer = replay.init(example, 30, 5)

    def follow(buffer, t):
        return add(buffer, example._replace(obs=jnp.full((1, 1), t), next_obs=jnp.full((1, 1), t + 1)), no)

    no = jnp.zeros(1, bool)
    for t in (0.0, 1.0):
        buffer = follow(buffer, t)
    buffer = replay.cut(buffer)
    for t in (10.0, 11.0):
        buffer = follow(buffer, t)
    step, later = jax.jit(partial(replay.sample, batch=200))(buffer, KEY)
    found = set(zip(*(np.asarray(x)[:, 0].tolist() for x in (step.obs, step.next_obs, later)), strict=True))
    assert found == {(0, 1, 2), (1, 2, 2), (10, 11, 12), (11, 12, 12)}


def test_a_resumed_run_acts_on_what_its_fresh_environments_show():
    made = compile_config(resolve(Options("diayn", "foreign_envs:Echo", **SIZES, goal_dim=3, horizon=5)))
    runs = made.advance(made.init(), 0, 2)
    runs, exact = made.enter(runs, {})
    assert not exact
    assert (runs.scene.obs[..., 4] > 0).all(), "the random number of each start"
    assert (runs.scene.obs[..., 3] == 0).all(), "the time"


def test_every_start_of_a_body_is_another():
    envs, keys = Batch(TASKS["HalfCheetah"], 1, 2, horizon=1), np.array([[3, 4]], np.uint32)
    starts = [envs.reset(keys)]
    starts += [envs.step(np.zeros((1, 2, 6), np.float32), keys, clock).obs for clock in range(3)]
    places = np.concatenate(starts, axis=1)[0]
    assert len(np.unique(places[:, 0])) == 8


# What q is given.


class Telling(eqx.Module):
    """A posterior whose mode is what it sees."""

    def __call__(self, seen):
        return Normal(seen, jnp.zeros_like(seen))

    def refresh(self, inputs, key):
        return self


def view(posterior_input, standardise=None):
    return PosteriorView(Telling(), (1, 2), posterior_input, 2, standardise)


def test_what_stands_for_a_target():
    """A transition to it, a state of it; where q sees an action, being at rest there."""
    s, target = jnp.array([1.0, 2.0, 3.0]), jnp.array([4.0, 5.0, 6.0])
    for posterior_input, seen in {"state": [5, 6], "transition": [2, 3, 5, 6], "action": [5, 6, 0, 0]}.items():
        assert view(posterior_input).towards(s, target).mode().tolist() == seen


def test_a_view_standardises_by_what_it_has_seen():
    batch = 3.0 + 2.0 * jax.random.normal(KEY, (64, 2))
    after = view("state", Standardiser.init(2)).refresh(batch, KEY).standardise
    close(after.mean, batch.mean(axis=0))
    close(after.variance, batch.var(axis=0))


# One evaluation.


def countdown():
    """Episodes of 1 to 5 steps of at most 6 that end by themselves; observations are the time and the length, and the
    velocity is the time."""
    spec = EnvSpec(2, 1, 6, 0.5, (0.0,) * 2, (6.0,) * 2, (-1.0,), (1.0,), (), (0,), (0, 1), {})

    def see(sim):
        return sim.astype(jnp.float32)

    def reset(key):
        sim = jnp.stack([jnp.zeros((), jnp.int32), jax.random.randint(key, (), 1, 6)])
        return sim, see(sim)

    def step(sim, action, key):
        sim = sim.at[0].add(1)
        return sim, see(sim), sim[0] >= sim[1]

    return Env(spec, reset, step)


def test_an_evaluation():
    """F is a mean over steps, LGR compares with the state in which an episode ended, and nothing after it counts."""
    env, goals, own, sigma = countdown(), cube(2), 40, 0.5
    q = PosteriorView(POSTERIORS["state-fixed"](KEY, Build(2, 2, (), Linear, sigma, 1, 5.0)), (0, 1))
    targets = jax.random.normal(KEYS[1], (9, 2))
    pursued = metrics.plan(goals, q, KEYS[2], own, targets)
    close(pursued.z[own:], targets)
    envs, measure = Vectorised(env, own + len(targets)), metrics.measuring(goals, q, env.spec)
    act = lambda obs, pursued, noise: jnp.zeros(1)  # noqa: E731
    followed, _ = rollout.episodes(envs, act, pursued, KEYS[3], measure)
    out = metrics.conclude(goals, q, env.spec, followed, pursued, targets)

    length = np.asarray(followed.steps, int)
    assert set(length) == {1, 2, 3, 4, 5}
    z, gains, times = np.asarray(pursued.z), [], []
    for goal, n in zip(z[:own], length[:own], strict=True):
        path = np.array([(t, n) for t in range(1, n + 1)])
        gains.append(stats.norm(path, sigma).logpdf(goal).sum(axis=1) + 2 * np.log(2))
        times.append(path[:, 0])
    last = np.stack([length, length], axis=1).astype(np.float32)
    close(followed.final.next_obs, last)
    close(out["F"], np.concatenate(gains).mean())
    close(out["log_q"], np.concatenate(gains).mean() - 2 * np.log(2))
    close(out["lgr_z"], ((z - last)[:own] ** 2).mean())
    close(out["lgr_s"], ((last[own:] - targets) ** 2).sum(axis=1).mean())
    close(out["lgr_v"], ((last[own:] - targets)[:, 0] ** 2).mean())
    close(out["episode_steps"], length[:own].mean())
    close(out["spread_v"], np.std([x.mean() for x in times]))
    close(out["spread_x"], np.std([0.5 * x.sum() for x in times]))
