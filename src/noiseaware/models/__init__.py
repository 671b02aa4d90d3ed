"""Models of the confidential records: a prior, a distribution of records, p(theta | x).

A model of your own is a plain class; nothing has to be inherited. The package's models derive from
the classes of `ready.py`, one family per file. The docstring of each file gives the models, the
full conditionals and the construction x = F(u; theta):

| file                                     | records                                     |
|------------------------------------------|---------------------------------------------|
| `bernoulli.py`, `normal.py`              | zeros and ones; floats                      |
| `counts.py`, `durations.py`              | integers from 0; positive floats            |
| `discrete.py`                            | an integer from 0, or several               |
| `naive_bayes.py`                         | a class and features, integers              |
| `dirichlet.py`, `normal_vectors.py`      | shares that sum to 1; rows of floats        |
| `linear_regression.py`                   | features and a response, floats             |
| `generalised_regression.py`              | features, and 0 or 1 or a count             |
| `errors_in_variables.py`                 | features released with noise                |
| `group_means.py`, `group_proportions.py` | a group, and a float; a group, and 0 or 1   |
| `unknown_sizes.py`                       | the same, with groups of unknown sizes      |
| `count_tables.py`                        | cells of a table with unknown total         |
| `count_regression.py`                    | counts of cells with known covariates       |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noiseaware.contract import Model
from noiseaware.maths.quantities import with_quantities as derived
from noiseaware.models.bernoulli import Bernoulli as Bernoulli
from noiseaware.models.count_regression import CountRegression as CountRegression
from noiseaware.models.count_tables import LogLinearTable as LogLinearTable
from noiseaware.models.count_tables import LogNormalTable as LogNormalTable
from noiseaware.models.count_tables import PoissonTable as PoissonTable
from noiseaware.models.counts import NegativeBinomial as NegativeBinomial
from noiseaware.models.counts import Poisson as Poisson
from noiseaware.models.dirichlet import Dirichlet as Dirichlet
from noiseaware.models.discrete import Categorical as Categorical
from noiseaware.models.discrete import ContingencyTable as ContingencyTable
from noiseaware.models.durations import Exponential as Exponential
from noiseaware.models.durations import Gamma as Gamma
from noiseaware.models.errors_in_variables import ErrorsInVariables as ErrorsInVariables
from noiseaware.models.generalised_regression import LogisticRegression as LogisticRegression
from noiseaware.models.generalised_regression import PoissonRegression as PoissonRegression
from noiseaware.models.group_means import StratifiedMeans as StratifiedMeans
from noiseaware.models.group_means import TwoMeans as TwoMeans
from noiseaware.models.group_proportions import StratifiedProportions as StratifiedProportions
from noiseaware.models.group_proportions import TwoProportions as TwoProportions
from noiseaware.models.linear_regression import LinearRegression as LinearRegression
from noiseaware.models.naive_bayes import NaiveBayes as NaiveBayes
from noiseaware.models.normal import Normal as Normal
from noiseaware.models.normal_vectors import MultivariateNormal as MultivariateNormal
from noiseaware.models.unknown_sizes import UnknownSizes as UnknownSizes
from noiseaware.registry import MODELS

__all__ = [*MODELS.names, "derived", "from_dict"]


def from_dict(description: Mapping[str, Any]) -> Model:
    """Return the package's model described by ``model.to_dict()``.

    Examples
    --------
    >>> from_dict({"type": "Bernoulli", "a": 2.0})
    Bernoulli(a=2.0)
    """
    if not isinstance(description, Mapping) or "derived" not in description:
        return MODELS.read(description)
    arguments = {name: value for name, value in description.items() if name != "derived"}
    return derived(MODELS.read(arguments), description["derived"])
