"""A replay buffer that stores each observation once: a ring of rows per environment, and pure functions on it.

A row holds an observation and what was done there; the next row holds the next observation. An episode of n steps takes
n + 1 rows, the last of which holds only the final observation, so that it is not confused with the observation after
the reset. Whole episodes are evicted. Observations that came as bytes are stored as bytes, and returned as numbers
k/255.

`link` gives the first and last row of the episode of any row. In the first row of an episode it is the number of its
steps so far, in later rows minus the distance to the first, and 0 in a row where no step starts.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int, Key, Shaped, UInt

from vgcrl.objective.types import Transition

RELABEL_STATES = ("final", "later", "episode")  # state of the episode that a relabelled goal is read off
_TRIES = 4  # candidate rows for each sample


class Replay(NamedTuple):
    """The buffer. `head`, `start` and `oldest` count rows without wrapping: row i is at i modulo the number of rows."""

    obs: Shaped[Array, "row env obs"]  # numbers, or bytes
    action: Float[Array, "row env action"]
    z: Shaped[Array, " row env *goal"]
    terminal: Bool[Array, "row env"]
    link: Int[Array, "row env"]
    head: Int[Array, " env"]  # row to be written next
    start: Int[Array, " env"]  # first row of the current episode
    oldest: Int[Array, " env"]  # first row of the oldest whole episode


def rows_needed(horizon: int) -> int:
    """Returns the fewest rows per environment: room for one whole episode beside the current one."""
    return 2 * (horizon + 1) + 2


def init(example: Transition, rows: int, horizon: int, pixels: bool = False) -> Replay:
    """Returns an empty buffer; `example` is one step of all environments, `pixels` stores observations as bytes."""
    count = example.terminal.shape[0]
    if rows < rows_needed(horizon):
        raise ValueError(f"replay of {rows} rows per environment is less than {rows_needed(horizon)}")

    def store(x: Shaped[Array, "*step"]) -> Shaped[Array, " row *step"]:
        return jnp.zeros((rows, *x.shape), x.dtype)

    link = jnp.zeros((rows, count), jnp.int16 if horizon < 2**15 else jnp.int32)
    counter = jnp.zeros(count, jnp.int32)
    obs = example.obs.astype(jnp.uint8) if pixels else example.obs
    columns = (store(x) for x in (obs, example.action, example.z, example.terminal))
    return Replay(*columns, link, counter, counter, counter)


def add(replay: Replay, step: Transition, last: Bool[Array, " env"]) -> Replay:
    """Returns the buffer with one step of all environments added.

    `last` is true where this step ends the episode. Where the ring is full, the oldest episode is evicted.
    """
    rows, count = replay.link.shape
    env = jnp.arange(count)
    head, start = replay.head, replay.start
    here, after, first = head % rows, (head + 1) % rows, start % rows

    full = head + 2 - replay.oldest > rows
    oldest_length = replay.link[replay.oldest % rows, env].astype(jnp.int32)
    oldest = jnp.where(full, replay.oldest + oldest_length + 1, replay.oldest)

    def kept(obs: Float[Array, "env obs"]) -> Shaped[Array, "env obs"]:
        return jnp.round(obs * 255).astype(jnp.uint8) if replay.obs.dtype == jnp.uint8 else obs

    so_far = (head - start).astype(replay.link.dtype)
    link = replay.link.at[here, env].set(-so_far).at[first, env].set(so_far + 1).at[after, env].set(0)
    return Replay(
        obs=replay.obs.at[here, env].set(kept(step.obs)).at[after, env].set(kept(step.next_obs)),
        action=replay.action.at[here, env].set(step.action),
        z=replay.z.at[here, env].set(step.z),
        terminal=replay.terminal.at[here, env].set(step.terminal),
        link=link,
        head=head + jnp.where(last, 2, 1),
        start=jnp.where(last, head + 2, start),
        oldest=oldest,
    )


def cut(replay: Replay) -> Replay:
    """Returns the buffer with the current episodes ended: what comes next does not follow from them."""
    head = jnp.where(replay.head > replay.start, replay.head + 1, replay.head)
    return replay._replace(head=head, start=head)


def sample(
    replay: Replay, key: Key[Array, ""], batch: int, later: str = "final"
) -> tuple[Transition, Shaped[Array, "batch obs"]]:
    """Returns a batch of steps drawn uniformly, and for each a state of its episode, by `later` (RELABEL_STATES)."""
    rows, count = replay.link.shape
    bits = jax.random.bits(key, (2 + _TRIES, batch))  # one draw serves all: each costs compile time

    def below(bits: UInt[Array, "*n"], n: Int[Array, "..."]) -> Int[Array, "*n"]:
        return (bits % n.astype(jnp.uint32)).astype(jnp.int32)

    env = below(bits[0], jnp.full(batch, count))
    oldest, head = replay.oldest[env], replay.head[env]

    # A final observation starts no step: take the first of a few candidates that does.
    tries = oldest[None] + below(bits[2:], (head - oldest)[None])
    starts = replay.link[tries % rows, env[None]] != 0
    row = jnp.take_along_axis(tries, jnp.argmax(starts, axis=0)[None], axis=0)[0]
    row = jnp.where(starts.any(axis=0), row, row - 1)

    link = replay.link[row % rows, env].astype(jnp.int32)
    first = jnp.minimum(row, row + link)
    final = first + replay.link[first % rows, env].astype(jnp.int32)
    places = {
        "final": lambda: final,
        "later": lambda: row + 1 + below(bits[1], final - row),
        "episode": lambda: first + below(bits[1], final - first + 1),
    }
    here = row % rows

    def seen(rows: Int[Array, " batch"]) -> Float[Array, "batch obs"]:
        obs = replay.obs[rows, env]
        return obs.astype(jnp.float32) / 255 if obs.dtype == jnp.uint8 else obs

    step = Transition(
        obs=seen(here),
        action=replay.action[here, env],
        next_obs=seen((row + 1) % rows),
        z=replay.z[here, env],
        terminal=replay.terminal[here, env],
    )
    return step, seen(places[later]() % rows)
