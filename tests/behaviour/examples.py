"""Classes as a user would write them: plain Python, nothing inherited from the package."""

import contextlib
import math
import os
import signal
from pathlib import Path

import numpy as np

import noiseaware as na


class Coin:
    """Zeros and ones with an unknown probability; every method, in plain Python."""

    parameters = (na.Parameter("probability", (), "unit"),)
    innovations = na.Innovations("uniform", 1)

    def sample_prior(self, rng):
        return {"probability": rng.random()}

    def log_prior(self, theta):
        return 0.0

    def sample_records(self, theta, n, rng):
        return np.array([int(rng.random() < theta["probability"]) for _ in range(n)])

    def log_likelihood(self, theta, records):
        p = float(theta["probability"])
        return np.array([math.log(p if x else 1.0 - p) for x in records])

    def update_parameters(self, theta, records, rng):
        ones = int(sum(records))
        return {"probability": rng.beta(1 + ones, 1 + len(records) - ones)}

    def build_records(self, theta, innovations):
        return (innovations[:, 0] < theta["probability"]).astype(np.int64)

    def recover_innovations(self, theta, records, rng):
        p = float(theta["probability"])
        u = rng.random(len(records))
        return np.where(records == 1, p * u, p + (1 - p) * u)[:, None]


class Simulator:
    """The same coin, given only as a prior and x = F(u; theta)."""

    parameters = (na.Parameter("probability", (), "unit"),)
    innovations = na.Innovations("uniform", 1)

    def sample_prior(self, rng):
        return {"probability": rng.random()}

    def log_prior(self, theta):
        return 0.0

    def build_records(self, theta, innovations):
        return (innovations[:, 0] < theta["probability"]).astype(np.int64)


class WeightedNoise:
    """Gaussian noise on a weighted count: t_i depends on the index; log g is Python."""

    guarantee = None

    def __init__(self, query, scale):
        self.query = query
        self.scale = scale

    def weights(self, index):
        return 1.0 + np.asarray(index) % 3

    def statistic(self, records, index, values):
        return (records * self.weights(index)).astype(np.float64)[:, None]

    def log_density(self, values, total):
        return -0.5 * float(np.sum(((values - total) / self.scale) ** 2))

    def privatize(self, records, rng):
        total = self.statistic(records, np.arange(len(records)), None).sum(axis=0)
        return na.Release(total + self.scale * rng.standard_normal(1), self, len(records))


class StopsAt:
    """A move that does nothing, until Ctrl-C is pressed in the middle of an iteration."""

    reports = ()

    def __init__(self, iteration):
        self.iteration = iteration

    def check(self, target):
        pass

    def start(self, target, state):
        return {}

    def step(self, target, state, tuning):
        if state.iteration == self.iteration:
            raise KeyboardInterrupt
        return ()

    def learn(self, target, state, tuning):
        pass


class SignsOfLife(StopsAt):
    """A move that touches a file when the chain has come to an iteration."""

    def __init__(self, iteration, path):
        super().__init__(iteration)
        self.path = str(path)

    def step(self, target, state, tuning):
        if state.iteration == self.iteration:
            Path(self.path).touch()
        return ()


def small_release(n_records=12, value=8.0, epsilon=1.0):
    """Return a release of a count."""
    return na.Release([value], na.mechanisms.Laplace(na.queries.Count(), epsilon), n_records)


def regression():
    """Return a regression model, everything unknown, and a release for it."""
    model = na.models.LinearRegression(2)
    query = na.queries.RegressionMoments(2, lower=-5.0, upper=5.0)
    rng = np.random.default_rng(5)
    records = model.sample_records(model.sample_prior(rng), 15, rng)
    return model, na.mechanisms.Laplace(query, epsilon=1.0).privatize(records, rng)


def same_draws(one, other):
    """Raise unless two posteriors hold the same draws, bit by bit."""
    for group in ("posterior", "sample_stats"):
        assert set(one[group].data_vars) == set(other[group].data_vars)
        for name, values in one[group].data_vars.items():
            np.testing.assert_array_equal(values.values, other[group][name].values, err_msg=name)


class Dies(na.models.Bernoulli):
    """A model whose first kernel in a worker kills it."""

    def __init__(self, parent, mark):
        super().__init__()
        self.parent, self.mark = parent, mark

    def update_parameters(self, theta, records, rng):
        if os.getpid() != self.parent and not Path(self.mark).exists():
            Path(self.mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().update_parameters(theta, records, rng)


class DiesOften(na.models.Bernoulli):
    """A model that kills its worker each time that it has made so many steps, for some time."""

    def __init__(self, parent, folder, steps, kills):
        super().__init__()
        self.parent, self.folder, self.steps, self.kills = parent, str(folder), steps, kills
        self.made = 0

    def __repr__(self):
        return "DiesOften"

    def update_parameters(self, theta, records, rng):
        self.made += 1
        if os.getpid() != self.parent and self.made % self.steps == 0:
            marks = Path(self.folder)
            count = len(list(marks.iterdir()))
            with contextlib.suppress(FileExistsError):
                if count < self.kills:
                    (marks / str(count)).touch(exist_ok=False)
                    os.kill(os.getpid(), signal.SIGKILL)
        return super().update_parameters(theta, records, rng)
