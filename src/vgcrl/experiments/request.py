"""What the user asks of an experiment, as options of `vgcrl reproduce`."""

from typing import NamedTuple

from vgcrl.training.fields import flag, spoken


class Request(NamedTuple):
    """What the user asks of an experiment.

    Only a grid takes more than `quick`, `program`, `engine`, `physics` and `dry_run`.
    """

    quick: bool = False
    env: tuple[str, ...] = ()  # empty: all
    goal_dim: tuple[int, ...] = ()  # empty: all
    steps: int | None = None
    seeds: int | None = None
    updates_per_step: float | None = None
    posterior_learning_rate: float | None = None
    terminate: bool | None = None
    envs: int | None = None
    engine: str | None = None
    physics: str | None = None
    looks: int | None = None  # number of evaluations during training
    minutes: float | None = None  # after which training stops and saves
    dry_run: bool = False
    report: bool = False  # train nothing, and report on the programs that are there
    program: str | None = None  # train only this one, and write no report

    def words(self) -> list[str]:
        """Returns the options as words of the command line."""
        alone = ("quick", "dry_run", "report")
        given = {k: v for k, v in self._asdict().items() if v not in (None, ()) and not (k in alone and v is False)}
        return [word for k, v in given.items() for word in ([flag(k)] if k in alone else [flag(k), spoken(v)])]

    def one(self, experiment: str, program: str) -> tuple[str, ...]:
        """Returns the words of the command that trains one program of an experiment."""
        alone = self._replace(program=program, env=(), goal_dim=(), minutes=None, dry_run=False)
        return ("reproduce", experiment, *alone.words())
