"""DISCERN's posterior: a softmax, over the goal and decoys, of the similarity of embeddings. Goals are states."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient
from jaxtyping import Float, Key

from vgcrl.objective.distributions import GoalAmongDecoys
from vgcrl.objective.networks import refresh
from vgcrl.objective.optim import FIXED
from vgcrl.objective.pictures import Convolutions
from vgcrl.objective.posteriors.base import Build, Plain

WIDTH = 32  # dimension of embeddings
DECOYS = 31
MEMORY = 256  # visited states kept, as different from each other as can be; goals and decoys are drawn from them
SCALE = 10.0  # factor on the cosine similarity
PROPOSED = 8  # states of a batch that may enter the memory
ORDINARY = 0.3  # probability to enter it anyway, so that the memory forgets what the policy no longer does


def _unit(x: Float[Array, " n"]) -> Float[Array, " n"]:
    return x / jnp.sqrt(jnp.sum(x**2) + 1e-12)


def _squares(states: Float[Array, "n features"], others: Float[Array, "m features"]) -> Float[Array, "n m"]:
    """Returns the squared distance of each state to each of `others`."""
    return jnp.sum((states[:, None] - others[None]) ** 2, axis=-1)


class Similarity(Plain):
    """The embedding network, the memory of visited states, and the decoys drawn from it."""

    net: Any
    memory: Float[Array, "memory features"] = eqx.field(metadata=FIXED)
    decoys: Float[Array, "decoys features"] = eqx.field(metadata=FIXED)

    def embed(self, s: Float[Array, " features"]) -> Float[Array, " embedding"]:
        return _unit(self.net(s))

    def __call__(self, s: Float[Array, " features"]) -> GoalAmongDecoys:
        decoys = stop_gradient(self.decoys)
        return GoalAmongDecoys(s, self.embed(s), (decoys, jax.vmap(self.embed)(decoys)), SCALE)

    def code(self, z: Float[Array, " features"]) -> tuple[Float[Array, " features"], Float[Array, " embedding"]]:
        return z, self.embed(z)

    def refresh(self, inputs: Float[Array, "batch features"], key: Key[Array, ""]) -> "Similarity":
        """Returns q with an updated memory, and new decoys drawn from it. A proposed state replaces a random remembered
        one if its nearest neighbour is further away, else with probability ORDINARY."""
        key_proposed, key_places, key_ordinary, key_decoys = jax.random.split(key, 4)
        proposed = inputs[jax.random.randint(key_proposed, (PROPOSED,), 0, inputs.shape[0])]
        block = MEMORY // PROPOSED  # one place in each block, so that no two states take the same
        places = jnp.arange(PROPOSED) * block + jax.random.randint(key_places, (PROPOSED,), 0, block)
        present = self.memory[places]
        own = jnp.arange(MEMORY)[None] == places[:, None]
        crowded = jnp.min(jnp.where(own, jnp.inf, _squares(present, self.memory)), axis=1)
        enters = jnp.min(_squares(proposed, self.memory), axis=1) > crowded
        enters |= jax.random.bernoulli(key_ordinary, ORDINARY, enters.shape)
        memory = self.memory.at[places].set(jnp.where(enters[:, None], proposed, present))
        decoys = memory[jax.random.randint(key_decoys, (DECOYS,), 0, MEMORY)]
        return Similarity(refresh(self.net), memory, decoys)


def similarity(key: Key[Array, ""], build: Build, *, conv: bool = False) -> Similarity:
    """Returns a new posterior with an empty memory; `conv` for an embedding by convolutions."""
    if conv:
        net = Convolutions.init(key, build.image, WIDTH, build.layer)
    else:
        net = build.network(key, (build.features, *build.hidden, WIDTH), build.layer)
    return Similarity(net, jnp.zeros((MEMORY, build.features)), jnp.zeros((DECOYS, build.features)))
