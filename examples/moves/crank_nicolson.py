"""Update all records at once by rotating their Gaussian innovations (Crank-Nicolson).

For a model that builds its records from standard normal innovations, x = F(u; theta), all records
are moved at once, with theta fixed:

    u' = u cos(a) + z sin(a),      z ~ N(0, I),      x' = F(u'; theta),

accepted with probability min(1, g(s_dp, T(x')) / g(s_dp, T(x))). (sin(a) is the step s of the
autoregression u' = sqrt(1 - s^2) u + s z, the preconditioned Crank-Nicolson proposal.)

**Why only g remains.** In (u, z) the target, with theta fixed, is

    p(u | theta, s_dp) p(z)  proportional to  exp(-(|u|^2 + |z|^2) / 2)  g(s_dp, T(F(u; theta))).

The proposal is the map (u, z) -> (u', z') with z' = u sin(a) - z cos(a). Its matrix

    ( cos a   sin a )
    ( sin a  -cos a )

is symmetric and orthogonal: the map is its own inverse, its Jacobian is 1 in absolute value, and it
preserves |u|^2 + |z|^2. So the normal densities of (u', z') and (u, z) are equal for every a, and
the Metropolis ratio is the ratio of g. z is drawn anew each time, which leaves p(z) invariant, and
z' is discarded. This holds for all n records at once: unlike that of a random walk, the acceptance
rate does not fall with n because of p(u) (Neal 1999, "Regression and classification using Gaussian
process priors"; Cotter, Roberts, Stuart and White 2013), only because of g.

**Where u comes from.** As in `transport`, u is recovered from x if F can be inverted (drawn from
p(u | x, theta) if several u give the same x); a model that is only a simulator carries it in the
state.

**The angle.** a = pi/2 draws a new database; small angles are needed if the release is informative.
a is tuned in warm-up and then frozen.

It is not in the default sampler: on most models a sweep in blocks is as good. Run it with
`python examples/moves/crank_nicolson.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

import noiseaware as na
from noiseaware.basics.adapt import StepSize
from noiseaware.basics.arguments import whole_number
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import CHUNK, Target

WANTED = 0.3
"""Target acceptance rate: T has a few dimensions, between one (0.44) and many (0.23)."""

LARGEST = 0.5 * math.pi
SMALLEST = 1e-4


@njit(cache=True, nogil=True)
def turn(innovations, normals, cosine, sine):
    """Write u cos(a) + z sin(a) over `normals`; both (m, w)."""
    for i in range(normals.shape[0]):
        for j in range(normals.shape[1]):
            normals[i, j] = cosine * innovations[i, j] + sine * normals[i, j]


class CrankNicolson:
    """Rotate the innovations of all records by an angle, and rebuild the records.

    Parameters
    ----------
    steps : int
        Rotations per iteration.
    """

    reports = ("crank_nicolson_acceptance",)

    def __init__(self, steps: int = 1) -> None:
        self.steps = whole_number("steps", steps)

    def __repr__(self) -> str:
        return "CrankNicolson()" if self.steps == 1 else f"CrankNicolson(steps={self.steps})"

    def check(self, target: Target) -> None:
        """Raise unless the records are built from known (or recoverable) normal innovations."""
        able = target.abilities
        name = able.name
        if able.innovations is None or able.innovations.kind != "normal":
            raise ValueError(
                "CrankNicolson needs a model with build_records and normal innovations; "
                f"{name} has {able.innovations or 'no innovations'}"
            )
        if not (able.holds_innovations or able.recover_innovations is not None):
            raise ValueError(
                "CrankNicolson needs recover_innovations(theta, records, rng) of a model with "
                f"update_parameters; {name} has none"
            )

    def start(self, target: Target, state: ChainState) -> dict[str, Any]:
        """Start with a moderate angle."""
        return {"angle": StepSize(0.5, WANTED, SMALLEST, LARGEST), "count": 0, "warming": True}

    def step(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> tuple[float]:
        """Rotate `steps` times; report the acceptance rate."""
        angle = tuning["angle"].size
        cosine, sine = math.cos(angle), math.sin(angle)
        log_g_now = target.log_g(target.total(state.records))
        accepted = 0
        for _ in range(self.steps):
            candidates, innovations = self._propose(target, state, cosine, sine)
            log_g_new = target.log_g(target.total(candidates))
            log_ratio = log_g_new - log_g_now
            # A ratio of NaN (records that are not finite) counts as a rejection.
            probability = math.exp(min(0.0, log_ratio)) if log_ratio > -700.0 else 0.0
            if tuning["warming"]:
                tuning["angle"].note(log_ratio)
            if state.rng.random() < probability:
                accepted += 1
                log_g_now = log_g_new
                state.records = candidates
                if state.innovations is not None:
                    state.innovations = innovations
        return (accepted / self.steps,)

    def _propose(
        self, target: Target, state: ChainState, cosine: float, sine: float
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Build the proposed database; other memory (except a simulator's u) is for one chunk."""
        rng, theta, n = state.rng, state.theta, target.n
        recover = target.abilities.recover_innovations
        held = state.innovations if target.abilities.holds_innovations else None
        if n <= CHUNK:
            u = recover(theta, state.records, rng) if held is None else held
            turned = rng.standard_normal(u.shape)
            turn(u, turned, cosine, sine)
            return target.build(theta, turned), turned
        candidates = np.empty_like(state.records)
        innovations = None if held is None else np.empty_like(held)
        for begin in range(0, n, CHUNK):
            part = slice(begin, min(begin + CHUNK, n))
            u = recover(theta, state.records[part], rng) if held is None else held[part]
            turned = rng.standard_normal(u.shape)
            turn(u, turned, cosine, sine)
            candidates[part] = target.build(theta, turned, begin)
            if innovations is not None:
                innovations[part] = turned
        return candidates, innovations

    def learn(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> None:
        """Tune the angle."""
        tuning["count"] += 1
        tuning["angle"].tune(tuning["count"])

    def freeze(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> None:
        """Stop tuning the angle."""
        tuning["warming"] = False


def main() -> None:
    """Sample a mean and a variance, moving all records together."""
    rng = np.random.default_rng(1)
    query = na.queries.Sum(-3.0, 3.0)
    release = na.mechanisms.Laplace(query, epsilon=1.0).privatize(rng.normal(0.5, 1.0, 200), rng)
    moves = (na.moves.ParameterUpdate(), CrankNicolson())
    posterior = na.sample(na.models.Normal(), release, moves=moves, random_seed=1)
    print(na.summary(posterior))


if __name__ == "__main__":
    main()
