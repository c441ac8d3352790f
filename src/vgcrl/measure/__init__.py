"""Run episodes and measure them: F, LGR and their statistics."""
