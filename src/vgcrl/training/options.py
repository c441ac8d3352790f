"""Options as a user gives them, from the command line or Python: checked one by one, the rest left to `resolve`."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from vgcrl.errors import UsageError
from vgcrl.training.config import FIELDS, Config
from vgcrl.training.fields import check


class Options(Mapping[str, Any]):
    """Only what was given: an immutable mapping from names of options to values that are valid by themselves.

    A value of None is as good as none. `a | b` has the options of both, those of b first.
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
        """Those that ask for a configuration."""
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
