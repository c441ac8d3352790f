"""The version of this package, also where it was copied and not installed."""

VERSION = "0.2.0"
