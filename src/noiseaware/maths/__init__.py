"""Formulas that models and moves share: theta as a vector, counts summed out, priors, totals."""
