"""Jump to a mirror image that the release cannot tell apart.

A noisy sum of squares is the same for the records x and -x. It leaves the sign of a normal mean
open, the posterior has two modes, and no small step leads from one to the other. Write the records
as x = F(u; theta(v)), with normal innovations u (`transport`), and let S and R be diagonal matrices
with entries 1 and -1. The proposal is

    v' = S v,     u' = u R,     x' = F(u'; theta(v')).

**The ratio.** In the coordinates (v, u) the target is p(theta(v)) J(v) p(u) g(s_dp, T), J the
Jacobian of theta(v). The map is its own inverse, its Jacobian determinant is 1 in absolute value,
and p(u') = p(u), because the normal density is even. So it is accepted with probability min(1, r),

    r = p(theta') J(v') g(s_dp, T(x')) / p(theta) J(v) g(s_dp, T(x)),

which is right for every S and R, whether or not the release sees a difference.

**Which S and R.** Before sampling, a few records are mirrored by all pairs of S and R, or by some
if there are many: v_j and u_k change their signs, or do not. Pairs that leave t_i(x_i) of every
record unchanged, at several theta from the prior, are worth proposing. Most releases have none, and
the move is then left out of the sampler. (At a single theta a few whole numbers may stay by chance:
those of a logistic regression, without the sign of its intercept.) Each iteration draws one of the
pairs at random.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from noiseaware.sampler.moves.base import ReadyMove, Tuning
from noiseaware.sampler.moves.transport import place
from noiseaware.sampler.pieces import PIECE
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

LOOK_AT, DRAWS = 32, 8
"""Records that are mirrored to see whether their statistics change, and the number of theta."""

MOST_SIGNS = 10
"""Up to this many coordinates of v and u, all 2^10 pairs are tried, in some hundredths of a second;
beyond, only some."""


def mirror_images(target: Target) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the signs (S, R) of v and u that leave the statistics of records unchanged.

    S must change something: a change of innovations alone is no image.
    """
    able, innovations = target.abilities, target.abilities.innovations
    if not able.can_transport or able.log_prior is None:
        return []
    if innovations is None or innovations.kind != "normal":
        return []
    rng = np.random.default_rng(0)
    coordinates, width = target.coordinates, innovations.width
    size = coordinates.size
    found = [signs for signs in _candidates(size, width) if (signs[:size] < 0.0).any()]
    # A few records rule out nearly all pairs; the other records may be of other groups.
    differ = able.uses_index or target.mechanism_abilities.statistic is not None
    places = {0, min(LOOK_AT, target.n)}
    if differ:
        places |= {*range(LOOK_AT, target.n, PIECE), target.n}
    for _, (begin, end) in itertools.product(range(DRAWS), itertools.pairwise(sorted(places))):
        if not found:
            break
        v = coordinates.to_vector(target.sample_prior(rng))
        u = innovations.draw(end - begin, rng)
        now = _statistics(target, v, u, begin)
        mirrored = [_statistics(target, s[:size] * v, s[size:] * u, begin) for s in found]
        same = [np.allclose(there, now, rtol=1e-9, atol=1e-12) for there in mirrored]
        found = list(itertools.compress(found, same))
    return [(signs[:size], signs[size:]) for signs in found]


def _statistics(target: Target, v: np.ndarray, u: np.ndarray, begin: int) -> np.ndarray:
    """Return t_i(x_i) of the records from `begin` on that u makes at v."""
    theta, _ = target.coordinates.from_vector(v)
    return target.statistic(target.build(theta, u, begin), begin)


def _candidates(size: int, width: int) -> list[np.ndarray]:
    """Return all vectors of signs except the one that changes nothing; or some, if many."""
    if size + width <= MOST_SIGNS:
        every = itertools.product((1.0, -1.0), repeat=size + width)
        return [np.array(signs) for signs in every][1:]
    ones, parts = np.ones(size + width), [slice(k, k + 1) for k in range(size + width)]
    parts += [slice(0, size), slice(size, size + width), slice(0, size + width)]
    return [np.concatenate([ones[: p.start], -ones[p], ones[p.stop :]]) for p in parts]


class MirrorMove(ReadyMove):
    """Propose a mirror image of the database that the release cannot tell from it."""

    reports = ("mirror_acceptance",)

    def check(self, target: Target) -> None:
        if not mirror_images(target):
            raise ValueError(
                "MirrorMove needs a model with normal innovations, and a release that does not "
                f"change when signs do; {target.abilities.name} with this release has none"
            )

    def start(self, target: Target, state: ChainState) -> Tuning:
        return {"images": mirror_images(target)}

    def step(self, target: Target, state: ChainState, tuning: Tuning) -> tuple[float]:
        rng, images = state.rng, tuning["images"]
        signs, u_signs = images[rng.integers(len(images))]
        v, log_prior = place(target.coordinates, target.log_prior, state.theta)
        theta, log_jacobian = target.coordinates.from_vector(signs * v)
        u = target.recover(state) * u_signs
        records, total = target.rebuild(theta, u)
        log_ratio = target.log_prior(theta) + log_jacobian - log_prior
        log_ratio += target.log_g(total) - target.log_g(target.total(state.records))
        accept = -rng.standard_exponential() < log_ratio < math.inf
        if accept:
            target.put(state, theta, u, records)
        return (float(accept),)
