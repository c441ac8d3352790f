"""The one error a user's input can cause: shown as one line, exit code 2."""


class UsageError(ValueError):
    """Names the option, the fault and what is valid."""
