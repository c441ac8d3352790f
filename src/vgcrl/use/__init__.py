"""Use of trained runs: the Python API, evaluation, experts."""
