"""From options to a trained run: configuration, compiled program, training loop, run folders."""
