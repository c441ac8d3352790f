"""DIAYN's discriminator: a softmax over k categories."""

from jax import Array
from jaxtyping import Float, Key

from vgcrl.objective.distributions import Categorical
from vgcrl.objective.pictures import Network
from vgcrl.objective.posteriors.base import Build, Plain


class Classifier(Plain):
    """A network whose outputs are the logits of q(z|s)."""

    logits: Network

    def __call__(self, s: Float[Array, " features"]) -> Categorical:
        return Categorical(self.logits(s))


def categorical(key: Key[Array, ""], build: Build) -> Classifier:
    """Returns a new classifier of `build.goals` categories."""
    return Classifier(build.network(key, (build.features, *build.hidden, build.goals), build.layer))
