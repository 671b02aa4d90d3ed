"""Theta with the records integrated out, where their columns are released one by one.

For a model that can integrate out its records given what is seen of each column (`seen_records`),
and draw them given theta. An iteration

1. updates theta given the records, by the model's own kernel for p(theta | x);
2. imputes w, what the model needs besides the release (possibly nothing), given the records;
3. moves theta so that p(theta | s_dp, w) is invariant, whatever the records are;
4. proposes the mirror image of theta, if the model has one (`mirror_parameters`);
5. draws the records from p(x | theta, s_dp, w).

Steps 3 to 5 together leave p(theta, x | s_dp, w) invariant. Where noise is wide, the records are
nearly free and theta given them hardly moves, so step 3 does the work. A column that is published
unchanged never moves.

**Step 4.** Wide noise may leave the sign of a coefficient open, and no step leads from one sign to
the other. theta is the image of its image theta', and the map preserves volume, so theta' is
accepted with probability min(1, p(theta') p(s_dp, w | theta') / (p(theta) p(s_dp, w | theta))).

**Step 3** is elliptical slice sampling (Murray, Adams and MacKay 2010) around a distribution
learned in warm-up. Let t be Student's t with mean m, scale matrix L L' and nu degrees of freedom, v
the unconstrained coordinates of theta, k of them, z = L^{-1} (v - m), and pi the density of v given
s_dp and w. A t is a normal distribution with covariance r L L', where 1 / r is gamma with shape nu
/ 2 and rate nu / 2. So draw r given v, with 1 / r gamma with shape (nu + k) / 2 and rate (nu + z'z)
/ 2; then v given r has density N(m, r L L') pi(v) / t(v) (Nishihara, Murray and Adams 2014). With
z~ normal, of variance r, all points of the ellipse z cos(a) + z~ sin(a) have the same density under
the first factor. Draw a from the angles where the second factor is above a random height below its
present value, by shrinking the bracket of angles towards 0. This leaves p(theta | s_dp, w)
invariant for any m and L. If t is close to pi, the first point is nearly always accepted and nearly
independent of the last.

References
----------
Murray, I., Adams, R. P. and MacKay, D. J. C. (2010). Elliptical slice sampling. AISTATS.
Nishihara, R., Murray, I. and Adams, R. P. (2014). Parallel MCMC with generalized elliptical slice
    sampling. JMLR 15.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseaware.basics.arguments import whole_number
from noiseaware.contract import Floats
from noiseaware.mechanisms.terms import EXACT, GAUSSIAN
from noiseaware.sampler.moves.base import Tuning
from noiseaware.sampler.moves.geometry import moments
from noiseaware.sampler.moves.parameters import ParameterUpdate
from noiseaware.sampler.moves.proposals import DOF
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target, most_likely_total

ALONE = 16
"""Iterations of warm-up before m and L of step 3 are first learned. Chosen, not tuned."""


def elliptical_draw(
    log_density: Callable[[Floats], float],
    v: Floats,
    mean: Floats,
    factor: Floats,
    rng: np.random.Generator,
) -> Floats:
    """Return a new v, leaving the density invariant. v stays if its density is 0."""
    k = len(v)

    def log_rest(z: NDArray[Any]) -> float:
        log_t = -0.5 * (DOF + k) * math.log1p(float(z @ z) / DOF)
        return log_density(mean + factor @ z) - log_t

    z = np.linalg.solve(factor, v - mean)
    height = log_rest(z) - rng.standard_exponential()
    if not height > -math.inf:
        return v
    r = 0.5 * (DOF + float(z @ z)) / rng.standard_gamma(0.5 * (DOF + k))
    other = math.sqrt(r) * rng.standard_normal(k)
    angle = 2.0 * math.pi * rng.random()
    low, high = angle - 2.0 * math.pi, angle
    while high - low > 1e-12:
        new = z * math.cos(angle) + other * math.sin(angle)
        if log_rest(new) > height:
            return mean + factor @ new
        low, high = (angle, high) if angle < 0.0 else (low, angle)
        angle = low + (high - low) * rng.random()
    return v


class ConditionalMove(ParameterUpdate):
    """Update theta given x, then theta with x integrated out, then x given theta; several times.

    Parameters
    ----------
    cycles : int, optional
        How many times an iteration does all three. None: once for each column whose noise is not
        normal, as a model may have to impute something about all of these but one.
    """

    def __init__(self, cycles: int | None = None) -> None:
        super().__init__()
        self.cycles = None if cycles is None else whole_number("cycles", cycles)

    def __repr__(self) -> str:
        return "ConditionalMove()" if self.cycles is None else f"ConditionalMove({self.cycles})"

    def check(self, target: Target) -> None:
        if target.column_laws is None:
            raise ValueError(
                "ConditionalMove needs a model with seen_records, and mechanisms.Attributes of "
                f"its columns; got {target.abilities.name} and {target.mechanism_abilities.name}"
            )
        super().check(target)

    def start(self, target: Target, state: ChainState) -> Tuning:
        """Begin with theta given the published values in place of the records.

        The noise biases that theta, but it has the signs that the release suggests: where
        noise_variance is known, coefficients of the other sign may be a mode of their own with
        almost no mass. The first `ALONE` iterations skip step 3, which could go there.
        """
        tuning = super().start(target, state)
        columns = zip(target.column_laws, state.records.T, strict=True)
        seen = [x if law is None else most_likely_total(law) for law, x in columns]
        state.records = np.ascontiguousarray(np.column_stack(seen))
        laws = [law for law in target.column_laws if law is not None]
        others = sum(not np.isin(law.family, (GAUSSIAN, EXACT)).all() for law in laws)
        tuning |= {"history": [], "mean": None, "factor": None}
        tuning["cycles"] = self.cycles or max(others, 1)
        self.step(target, state, tuning)
        return tuning

    def _draw(self, target: Target, state: ChainState, tuning: Tuning) -> None:
        """Impute what is needed, move theta with the records integrated out, and draw these."""
        see, log_prior, maps = target.abilities.seen_records, target.log_prior, target.coordinates
        assert see is not None
        seen = see(state.records, target.column_laws, state.rng)

        def log_density(v: Floats) -> float:
            theta, log_jacobian = maps.from_vector(v)
            if not log_jacobian > -math.inf:
                return -math.inf
            value = log_prior(theta) + log_jacobian + seen.log_p(theta)
            return value if value < math.inf else -math.inf

        if tuning["mean"] is not None:
            now = maps.to_vector(state.theta)
            new = elliptical_draw(log_density, now, tuning["mean"], tuning["factor"], state.rng)
            if new is not now:
                state.theta = maps.from_vector(new)[0]
        mirror = target.abilities.mirror_parameters
        if mirror is not None:
            image = mirror(state.theta, state.rng)
            log_ratio = log_prior(image) - log_prior(state.theta)
            log_ratio += seen.log_p(image) - seen.log_p(state.theta)
            if -state.rng.standard_exponential() < log_ratio < math.inf:
                state.theta = image
        state.records = seen.draw(state.theta, state.rng)

    def step(self, target: Target, state: ChainState, tuning: Tuning) -> tuple[float, ...]:
        for _ in range(tuning["cycles"]):
            super().step(target, state, tuning)
            self._draw(target, state, tuning)
        return ()

    def learn(self, target: Target, state: ChainState, tuning: Tuning) -> None:
        """Learn m and L from the later half of the history each time it has doubled."""
        history = tuning["history"]
        history.append(target.coordinates.to_vector(state.theta))
        if len(history) >= ALONE and len(history) & (len(history) - 1) == 0:
            self._take(history, tuning)

    def freeze(self, target: Target, state: ChainState, tuning: Tuning) -> None:
        if len(tuning["history"]) >= ALONE:
            self._take(tuning["history"], tuning)
        tuning["history"] = []

    @staticmethod
    def _take(history: list[Floats], tuning: Tuning) -> None:
        tuning["mean"], covariance = moments(np.stack(history[len(history) // 2 :]))
        tuning["factor"] = np.linalg.cholesky(covariance)
