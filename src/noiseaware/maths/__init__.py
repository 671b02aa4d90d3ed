"""Formulas shared by models and moves: theta as a vector, counts summed out, priors, totals."""
