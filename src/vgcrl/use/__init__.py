"""What works on trained runs: the Python API, evaluation, experts."""
