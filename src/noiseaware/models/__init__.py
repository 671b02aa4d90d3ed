"""What made the confidential records: a prior, a distribution of records, p(theta | x).

A model of yours is a plain class; nothing has to be inherited. Those of the package are written in
a file each, whose docstring gives the model, the full conditionals and the construction
x = F(u; theta):

| file                        | records                                        |
|-----------------------------|------------------------------------------------|
| `linear_regression.py`      | features and a response, floats                |
| `generalised_regression.py` | features, and 0 or 1; features and a count     |
| `naive_bayes.py`            | a class and features, integers                 |
| `bernoulli.py`              | zeros and ones                                 |
| `normal.py`                 | floats                                         |
| `categorical.py`            | integers from 0                                |
| `exponential.py`            | durations                                      |
| `gamma.py`                  | durations                                      |
| `multivariate_normal.py`    | rows of floats                                 |
| `contingency_table.py`      | several integers from 0                        |
| `poisson_table.py`          | cells of a table whose total is not known      |
| `log_linear_table.py`       | the same, with effects and interactions        |
| `poisson.py`                | counts                                         |
| `negative_binomial.py`      | counts that vary more                          |
| `count_regression.py`       | counts of cells with known covariates          |
| `two_proportions.py`        | a group of two, and 0 or 1                     |
| `two_means.py`              | a group of two, and a float                    |
| `stratified_proportions.py` | a group of many, and 0 or 1                    |
| `stratified_means.py`       | a group of many, and a float                   |
| `unknown_sizes.py`          | the same, of groups whose sizes nobody says    |
| `dirichlet.py`              | shares that sum to 1                           |

All derive from the classes of `ready.py`. What some share is in `conjugate.py` (draws and log
densities), `discrete.py` (categories with Dirichlet priors), `grouped.py` (records whose group is
known), `hierarchical.py` (groups that share a prior), `gamma_priors.py` (durations and counts),
`count_cdf.py` and `inverse_cdf.py` (discrete records from uniforms),
`gamma_quantiles.py` (gamma variables from normals), `shape_kernels.py` (a slice sampler for
shapes), `normal_vectors.py` (normal rows, their mean and covariance), `regression.py` (features and
coefficients), `regression_kernels.py` and `response_kernels.py` (the loops of regressions),
and `summed_regression.py` (counts of cells summed out).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noiseaware.contract import Model
from noiseaware.maths.quantities import with_quantities as derived
from noiseaware.models.bernoulli import Bernoulli as Bernoulli
from noiseaware.models.categorical import Categorical as Categorical
from noiseaware.models.contingency_table import ContingencyTable as ContingencyTable
from noiseaware.models.count_regression import CountRegression as CountRegression
from noiseaware.models.dirichlet import Dirichlet as Dirichlet
from noiseaware.models.errors_in_variables import ErrorsInVariables as ErrorsInVariables
from noiseaware.models.exponential import Exponential as Exponential
from noiseaware.models.gamma import Gamma as Gamma
from noiseaware.models.generalised_regression import LogisticRegression as LogisticRegression
from noiseaware.models.generalised_regression import PoissonRegression as PoissonRegression
from noiseaware.models.linear_regression import LinearRegression as LinearRegression
from noiseaware.models.log_linear_table import LogLinearTable as LogLinearTable
from noiseaware.models.log_linear_table import LogNormalTable as LogNormalTable
from noiseaware.models.multivariate_normal import MultivariateNormal as MultivariateNormal
from noiseaware.models.naive_bayes import NaiveBayes as NaiveBayes
from noiseaware.models.negative_binomial import NegativeBinomial as NegativeBinomial
from noiseaware.models.normal import Normal as Normal
from noiseaware.models.poisson import Poisson as Poisson
from noiseaware.models.poisson_table import PoissonTable as PoissonTable
from noiseaware.models.stratified_means import StratifiedMeans as StratifiedMeans
from noiseaware.models.stratified_proportions import StratifiedProportions as StratifiedProportions
from noiseaware.models.two_means import TwoMeans as TwoMeans
from noiseaware.models.two_proportions import TwoProportions as TwoProportions
from noiseaware.models.unknown_sizes import UnknownSizes as UnknownSizes
from noiseaware.registry import MODELS

__all__ = [*MODELS.names, "derived", "from_dict"]


def from_dict(description: Mapping[str, Any]) -> Model:
    """Return the model of the package that ``model.to_dict()`` described.

    Examples
    --------
    >>> from_dict({"type": "Bernoulli", "a": 2.0})
    Bernoulli(a=2.0)
    """
    if not isinstance(description, Mapping) or "derived" not in description:
        return MODELS.read(description)
    arguments = {name: value for name, value in description.items() if name != "derived"}
    return derived(MODELS.read(arguments), description["derived"])
