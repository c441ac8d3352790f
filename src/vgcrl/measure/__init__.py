"""Episodes and what is measured on them: F, LGR and their statistics."""
