"""The precision of p(v | x), from how the log likelihood of each record answers to v.

Given x, the posterior of v is about as wide as the inverse of its precision,

    precision  =  sum_i s_i s_i'  +  that of the prior,        s_i = d log f(x_i | theta(v)) / d v.

The scores s_i come from central differences of `log_likelihood`, which gives one number per record:
two calls for each coordinate, no derivatives. Their outer products have the Fisher information as
their mean if x comes from the model at v, as it nearly does along a chain, and they add up to a
matrix that is never indefinite, as a matrix of second differences could be.

The database changes along the chain, so the precision is an average over looks at several; the
average starts afresh at each power of two, because the first looks are far from where the chain
ends. A wrong precision costs time and not exactness: nothing is learned after warm-up.
"""

from __future__ import annotations

import numpy as np

from noiseaware.kernels.density import State, Target

DIFFERENCE = 0.1
"""Width of the differences, in standard deviations of v as they are known so far."""

LOOK_EVERY = 16
"""Iterations of warm-up between two looks; in the beginning, at each power of two."""

PRIOR_DRAWS = 20
"""Draws of the prior for each coordinate, from which its precision is taken."""


class Precision:
    """The precision of v given x, learned in warm-up.

    Attributes
    ----------
    matrix
        (size, size), symmetric and positive definite.
    """

    learned = ("_information", "_looks", "matrix")

    def __init__(self, target: Target, rng: np.random.Generator) -> None:
        coordinates = target.coordinates
        draws = np.stack(
            [
                coordinates.to_vector(target.model.sample_prior(rng))
                for _ in range(PRIOR_DRAWS * coordinates.size)
            ]
        )
        covariance = np.atleast_2d(np.cov(draws, rowvar=False))
        covariance[np.diag_indices(len(covariance))] *= 1.0 + 1e-6
        covariance[np.diag_indices(len(covariance))] += 1e-12
        self._prior = np.linalg.inv(covariance)
        self._prior = 0.5 * (self._prior + self._prior.T)
        self._information = np.zeros_like(covariance)
        self._looks = 0
        self.matrix = self._prior

    def learn(self, target: Target, state: State, count: int) -> bool:
        """Look at the scores if it is time to; True if the precision changed."""
        forget = count & (count - 1) == 0
        if not forget and count % LOOK_EVERY:
            return False
        scores = self._scores(target, state)
        if scores is None:
            return False
        if forget:
            self._information[:] = 0.0
            self._looks = 0
        self._information += scores.T @ scores
        self._looks += 1
        self.matrix = self._prior + self._information / self._looks
        return True

    def _scores(self, target: Target, state: State) -> np.ndarray | None:
        """Return the scores (n, size) where the chain is; None if they are not finite."""
        coordinates, log_likelihood = target.coordinates, target.abilities.log_likelihood
        assert log_likelihood is not None
        v = coordinates.to_vector(state.theta)
        widths = DIFFERENCE / np.sqrt(np.diag(self.matrix))
        scores = np.empty((len(state.records), len(v)))
        for j, width in enumerate(widths):
            ends = []
            for side in (width, -width):
                moved = v.copy()
                moved[j] += side
                theta = coordinates.from_vector(moved)[0]
                ends.append(np.asarray(log_likelihood(theta, state.records)))
            scores[:, j] = (ends[0] - ends[1]) / (2 * width)
        return scores if np.isfinite(scores).all() else None
