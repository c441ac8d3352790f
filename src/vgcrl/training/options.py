"""Options as a user gives them, on the command line or in Python: each is checked; `resolve` decides the rest."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from vgcrl.errors import UsageError
from vgcrl.training.config import FIELDS, Config
from vgcrl.training.fields import check


class Options(Mapping[str, Any]):
    """The options that were given: an immutable mapping from their names to values, each valid by itself.

    A value of None counts as not given. `a | b` has the options of both; if both have one, that of b holds.
    """

    def __init__(self, method: str | None = None, env: str | None = None, **given: Any):
        values = {name: x for name, x in {"method": method, "env": env, **given}.items() if x is not None}
        for name in values:
            if name not in FIELDS:
                raise UsageError(f"unknown option {name!r}; valid: {', '.join(sorted(FIELDS))}")
        for name in (name for name in FIELDS if name in values):
            check(FIELDS[name], values[name])
        self._values = values

    @staticmethod
    def of(config: Config) -> "Options":
        """Returns the options that resolve to a configuration: all of its values."""
        return Options(**dataclasses.asdict(config))

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __or__(self, others: Mapping[str, Any]) -> "Options":
        return Options(**{**self, **others})

    def __repr__(self) -> str:
        return f"Options({', '.join(f'{name}={x!r}' for name, x in self.items())})"
