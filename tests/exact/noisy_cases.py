"""Releases of five cells for `Noisy`, with log P(s_i | x) of every count by hand."""

import math

import numpy as np

import noiseaware as na
from exact.seen import NAN, X, by_hand

VALUE = na.queries.Value()
M = na.mechanisms
INF = math.inf
SCALES = np.array([2.0, 6.0, 1.0, 3.0, 9.0])
THRESHOLDS = np.array([2.0, 5.0, 4.0, 1.0, 60.0])


def rounding(s):
    return np.where(np.abs(X - s) < 3, 1.0 - np.abs(X - s) / 3.0, 0.0)


def keyed(s, table, lowest):
    rows = np.array(table)[np.minimum(X, len(table) - 1)]
    change = int(s) - X - lowest
    inside = (change >= 0) & (change < rows.shape[1])
    return np.where(inside, rows[X, np.clip(change, 0, rows.shape[1] - 1)], 0.0)


KEYS = [[0.8, 0.2, 0.0], [0.5, 0.3, 0.2], [0.1, 0.5, 0.4]]


def logs(values):
    with np.errstate(divide="ignore"):
        return np.log(np.array(values))


def each(law, *ends, scales=SCALES):
    """Rows of log h; (nothing) is a record that was not asked for."""
    return np.array(
        [
            np.zeros(len(X)) if pair is None else by_hand(law, scale, *pair)
            for pair, scale in zip(ends, scales, strict=True)
        ]
    )


def cases():
    """Name -> mechanism, released values, log h (5, X)."""
    yield (
        "discrete Gaussian, one missing",
        (
            M.LocalDiscreteGaussian(VALUE, scale=SCALES),
            [3.0, 47.0, NAN, 0.0, -4.0],
            each("discrete-gaussian", (3, 3), (47, 47), None, (0, 0), (-4, -4)),
        ),
    )
    yield (
        "discrete Gaussian, withheld",
        (
            M.LocalDiscreteGaussian(VALUE, scale=SCALES, threshold=THRESHOLDS),
            [3.0, NAN, NAN, 14.0, NAN],
            each("discrete-gaussian", (3, 3), (-INF, 5), (-INF, 4), (14, 14), (-INF, 60)),
        ),
    )
    yield (
        "geometric, rounded",
        (
            M.LocalGeometric(VALUE, scale=SCALES / 3.0, step=4.0),
            [4.0, 28.0, 0.0, 12.0, 88.0],
            each("geometric", (3, 5), (27, 29), (-2, 2), (11, 13), (86, 90), scales=SCALES / 3.0),
        ),
    )
    yield (
        "Gaussian, clamped at both ends",
        (
            M.LocalGaussian(VALUE, scale=SCALES, clamp=(0.0, 60.0)),
            [0.0, 33.3, 0.0, 60.0, 60.0],
            each("gaussian", (-INF, 0), (33.3, 33.3), (-INF, 0), (60, INF), (60, INF)),
        ),
    )
    yield (
        "Laplace, withheld",
        (
            M.LocalLaplace(VALUE, scale=SCALES, threshold=2.5),
            [3.1, NAN, NAN, 30.25, 95.0],
            each("laplace", (3.1, 3.1), (-INF, 2.5), (-INF, 2.5), (30.25, 30.25), (95, 95)),
        ),
    )
    values = [3.0, 30.0, 0.0, 12.0, 93.0]
    yield "random rounding", (M.RandomRounding(3), values, logs([rounding(s) for s in values]))
    values = [3.0, 30.0, NAN, 12.0, 93.0]
    yield (
        "cell keys",
        (
            M.CellKey(KEYS, lowest=0),
            values,
            logs([np.ones(len(X)) if s != s else keyed(s, KEYS, 0) for s in values]),
        ),
    )
    values = [3.0, 30.0, 0.0, 7.0, 93.0]
    yield "as they are", (M.LocalExact(), values, logs([1.0 * (s == X) for s in values]))


CASES = dict(cases())
