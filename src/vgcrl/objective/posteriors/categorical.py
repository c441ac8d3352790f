"""DIAYN's discriminator: a softmax over k categories."""

from jax import Array
from jaxtyping import Float, Key

from vgcrl.objective.distributions import Categorical
from vgcrl.objective.networks import MLP
from vgcrl.objective.posteriors.base import Build, Plain


class Classifier(Plain):
    logits: MLP

    def __call__(self, s: Float[Array, " features"]) -> Categorical:
        return Categorical(self.logits(s))


def categorical(key: Key[Array, ""], build: Build) -> Classifier:
    return Classifier(MLP.init(key, (build.features, *build.hidden, build.goals), build.layer))
