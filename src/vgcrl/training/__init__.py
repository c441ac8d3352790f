"""From options to a trained run: configuration, compiled program, the loop, run folders."""
