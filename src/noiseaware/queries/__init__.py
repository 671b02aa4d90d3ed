"""Queries: what was asked of the confidential database.

A query maps each record x_i to a statistic t(x_i), a vector of d numbers. Its answer is the total
over the records, to which a mechanism adds noise. (This is the simplest form of the paper's record
additivity.) A query also knows the names of its d coordinates and its sensitivity: how far one
record can move the total. `docs/sensitivity.md` proves the sensitivities.

| query                | the total is                                                |
|----------------------|-------------------------------------------------------------|
| `RegressionMoments`  | the clamped sums and cross products of a linear regression  |
| `Moments`            | the clamped sums and products of several columns            |
| `ClassFeatureCounts` | a class-by-level table for each feature of a naive Bayes    |
| `Count`              | the number of records equal to a value                      |
| `Sum`                | the sum of clamped records                                  |
| `Shares`             | the sums of shares that sum to 1 in every record            |
| `Histogram`          | the number of records in each bin, or at each level         |
| `ByGroup`            | a query of each group, where the groups are public          |
| `InGroup`            | a query of one group                                        |
| `InColumn`           | a query of one column                                       |
| `Margins`            | any margins of a contingency table                          |
| `Linear`             | weighted sums of the cells of a table: A x                  |
| `Value`              | (of each record) its own number                             |
| `Query`              | any vectorised function                                     |

Your own class works too, without inheritance, if it has the attributes and methods of
`noiseaware.contract.Query`.
"""

from noiseaware import contract
from noiseaware.basics.deprecated import renamed
from noiseaware.contract import Neighbours
from noiseaware.queries.by_group import ByGroup, InColumn, InGroup
from noiseaware.queries.counts import Count, Histogram
from noiseaware.queries.linear import Linear
from noiseaware.queries.moments import Moments, RegressionMoments
from noiseaware.queries.query import Query
from noiseaware.queries.stacked import StackedQuery
from noiseaware.queries.sum import Shares, Sum, Value
from noiseaware.queries.tables import ClassFeatureCounts, Margins
from noiseaware.registry import QUERIES

__all__ = [
    "ByGroup",
    "ClassFeatureCounts",
    "Count",
    "Histogram",
    "InColumn",
    "InGroup",
    "Linear",
    "Margins",
    "Moments",
    "Neighbours",
    "Query",
    "RegressionMoments",
    "Shares",
    "StackedQuery",
    "Sum",
    "Value",
    "from_dict",
]

from_dict = QUERIES.read

__getattr__ = renamed(
    "noiseaware.queries",
    dict.fromkeys(("QueryLike", "CountsQueryLike"), ("noiseaware.contract.Query", contract.Query)),
)
