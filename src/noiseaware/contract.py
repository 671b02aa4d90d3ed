"""The contract: what models, sizes, queries, mechanisms, kernels and moves must and may provide.

Your class inherits nothing. It implements the protocol of its kind (`Model`, `Query`, `Mechanism`,
`Loss`, `Kernel` or `Move`) and any optional members, or *abilities*, that it needs. Each ability is
a field of `ModelAbilities`, `QueryAbilities` and so on; its description says what it must satisfy
and who calls it.

`model_abilities(model)` and its siblings collect the abilities into one typed object, and the
package looks for them nowhere else. An ability that is missing or None is absent, so a wrapper
class disables an ability by setting it to None.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from noiseaware.basics import deprecated
from noiseaware.parameters import Innovations, Parameter

Theta = dict[str, NDArray[np.float64]]
"""The parameters of a model, one array per name."""

Neighbours = Literal["change", "add-remove"]
"""Which databases a guarantee compares. `"change"`: the same number of records, one of them
different ("bounded", as in the paper); `"add-remove"`: one database has an extra record
("unbounded")."""

_MOST_NUMBERS = 2**24
"""How many statistics to hold at a time: 128 MiB."""

Floats = NDArray[np.float64]
Draw = Callable[..., Any]


class Reading(NamedTuple):
    """What the totals of a query say about n records if taken as exact.

    Totals that noise has made impossible are first moved to possible values.
    """

    kind: Literal["counts", "sum", "tables", "moments", "groups"]
    """What `values` are."""
    values: Any
    """"counts": the number of records at 0, 1, ..., (J,). "sum": the sum of the records. "tables":
    counts of classes, (I,), and of each feature's levels by class, [(I, J_k), ...]. "moments":
    the mean, (q,), and the scatter matrix, (q, q), of the columns. "groups": a function from the
    group sizes to a reading for each group, or None if the number of groups differs."""
    words: str
    """What was done to the numbers, to follow "taken as exact"."""
    bounds: tuple[Any, Any] = (-np.inf, np.inf)
    """Where records or columns were clamped."""


class ClosedForm(NamedTuple):
    """A model's answer to a reading that contains all that the records say about theta."""

    estimate: Theta
    """The maximum likelihood estimate."""
    draw: Callable[[int, np.random.Generator], Theta] | None = None
    """(draws, rng) -> draws of p(theta | x), (draws, *shape). None: use `update_parameters` on any
    records with these moments."""


class Named:
    """Abilities of an object whose class name appears in messages."""

    @property
    def name(self) -> str:
        """The name shown in messages."""
        return type(next(iter(vars(self).values()))).__name__


# ------------------------------------------------------------------ models


class CountsPrior(NamedTuple):
    """The prior of a table of C counts x, with theta integrated out.

        log p(x) = sum_c [log Gamma(a_c + x_c) + b_c x_c - log x_c!]
                   + sum_r s_r log Gamma(h_r + (M x)_r) + constant,

    without the first term for a cell with a_c = 0. The constant is -log Gamma(`whole` + n), where
    n is the number of records.
    """

    concentrations: Floats
    """a, (C,)."""
    matrix: Any = None
    """M, (R, C), an array or a sparse matrix; None: no rows."""
    shifts: Floats = np.zeros(0)
    """h, (R,)."""
    signs: Floats = np.zeros(0)
    """s, (R,)."""
    slopes: Floats | None = None
    """b, (C,); None: zeros."""
    whole: float | None = None
    """Needed only if the number of records is unknown. 0: no such term."""


class LogLinear(NamedTuple):
    """Poisson means m of C counts, log m = D b, with b_j ~ N(mu_j, 1 / w_j) independently.

    b is the model's theta as a vector, in the order of the parameters.
    """

    design: Any
    """D, (C, P), sparse by columns."""
    centres: Floats
    """mu, (P,)."""
    precisions: Floats
    """w, (P,)."""
    largest: float
    """Upper limit on every log mean."""


class Parts(NamedTuple):
    """Records with a class and K features that are independent given the class.

    A record belongs to K cells, one per feature: its class, the feature and its level. Cells are
    numbered by class, then feature, then level. The query and theta depend on the records only
    through the counts of the cells, (C,).
    """

    levels: tuple[int, ...]
    """I, J_1, ..., J_K: the number of classes, and of levels of each feature."""
    columns: Any
    """What a record adds to the total for each of its cells, (d, C), possibly sparse."""
    prior: CountsPrior
    """log p of one database with these counts, and so without the terms -log x_c!."""
    from_gammas: Callable[[Floats], Theta]
    """As `ModelAbilities.from_gammas`, for the gammas of this prior."""
    log_cells: Callable[[Theta], Floats]
    """theta -> (C,): log f of a record is the sum over its cells."""


class Model(Protocol):
    """What generated the confidential records: a prior and a way to make records.

    The sampler needs `sample_records` or `build_records` to make records. To move theta it needs
    `update_parameters`, `log_prior` with `log_likelihood`, or `build_records` with `log_prior`
    (see `ModelAbilities`).
    """

    @property
    def parameters(self) -> Sequence[Parameter]:
        """Name, shape and support of each parameter. Used everywhere."""

    def sample_prior(self, rng: np.random.Generator) -> Theta:
        """Draw theta from the prior, inside the declared supports. Used to start a chain."""


@dataclass(frozen=True)
class ModelAbilities(Named):
    """What a model can do. Each field is the model's own member, or None if absent."""

    model: Any

    # Making records.
    sample_records: Draw | None = None
    """(theta, n, rng) -> n records from f(. | theta). Sweeps; optional with build_records."""
    build_records: Draw | None = None
    """(theta, u) -> records x_i = F(u_i; theta), distributed as f(. | theta). Transport."""
    innovations: Innovations | None = None
    """The distribution of u_i; required with build_records."""
    recover_innovations: Draw | None = None
    """(theta, records, rng) -> u drawn from p(u | x, theta), so that F(u; theta) = x. Transport."""
    uses_index: bool = False
    """Records differ in distribution: methods that make them also take `index`, which to make."""
    n_records: int | None = None
    """The number of records if the model fixes it; the release must agree."""

    # Densities and kernels.
    log_prior: Callable[[Any], float] | None = None
    """theta -> log p(theta), up to a constant. Transport and the ready-made kernels."""
    log_likelihood: Callable[[Any, Any], Floats] | None = None
    """(theta, records) -> log f(x_i | theta), (n,). Ready-made kernels, Algorithm 2, `validate`."""
    update_parameters: Draw | None = None
    """(theta, records, rng) -> theta, from a kernel that leaves p(theta | x) invariant."""
    kernel: Any = None
    """The model's own kernel object, used instead of the ready-made one."""
    jax_log_density: Any = None
    """(theta, records) -> log p(theta, x) in JAX. `kernels.BlackJax` and NumPyro's NUTS."""

    # Help for the sampler.
    coordinates: Any = None
    """The model's own map between theta and an unconstrained vector, replacing the default."""
    group_levels: slice | None = None
    """The slice of the coordinates v that are independent standard normals given the others, one
    per group of records, in order; each affects only the records of its group. The model's
    `coordinates` must then have `spread_of(v)`, how much a level changes per unit of its
    coordinate, and `around(theta)`, the other coordinates with these held. `moves.GroupMove`."""
    scale_records: Draw | None = None
    """(theta, records, amount) -> theta', records', log ratio: a move in a direction that releases
    do not see. `moves.ScaleMove` states the condition on it."""
    formula: Draw | None = None
    """(query, n) -> a formula for the total given u, or None if there is none. Transport."""
    record_values: Any = None
    """All possible values of a record, (C, ...), if there are few. A chain then holds only how many
    records have each value, if the model has log_likelihood with log_prior or update_from_counts,
    or a counts_prior. Also `validate`."""
    record_levels: int | None = None
    """The number of levels of a record's entries, if they are integers from 0. Large sets of
    records are then stored in the smallest integer type that fits."""
    value_groups: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    """(C,) the group of each of `record_values`, and (G,) the number of records in each group, for
    groups of known size. None: all records have the same distribution."""
    update_from_counts: Draw | None = None
    """(theta, counts, rng) -> theta: update_parameters for records with these counts, (C,)."""
    random_size: bool = False
    """The model also generates the number of records: given theta, the number of records with value
    v is Poisson with mean exp(log_likelihood(theta, v)). Only for chains of counts; the release
    may leave n_records unknown."""
    counts_prior: CountsPrior | None = None
    """p(counts) with theta integrated out. Theta is then drawn from p(theta | counts) by
    from_gammas or update_from_counts."""
    from_gammas: Callable[[Floats], Theta] | None = None
    """(m, K) logarithms of gamma variables -> m draws of theta, first axis the draw. Given the
    counts, theta is a function of independent gammas: one of shape a_c + x_c for each cell of the
    counts_prior with a_c > 0, then one of shape h_r + (M x)_r for each row with s_r = 1. A chain
    can then run many iterations in one call."""
    parts: Callable[[Any], Parts | None] | None = None
    """query -> the `Parts` of records, or None if it depends on more than these. A chain then holds
    the counts of the cells, which are fewer than the possible records."""
    log_linear: LogLinear | None = None
    """The means of a model with random_size, if they are log-linear. In chains of counts, theta
    then follows the counts on their lines (`counts.following`)."""
    count_table: Parameter | None = None
    """Name, shape and labels of the counts, if the posterior shows them as a variable."""

    # Records that are counts, each with its own distribution (`moves.CellMove`).
    count_law: Draw | None = None
    """(theta, n, index=None) -> code, rate (n,) and size (n,): the distribution f of each count, in
    the encoding of `noiseaware.maths.cells.log_mass`."""
    summed_kernel: Draw | None = None
    """(laws, n) -> a kernel for p(theta | s_dp) with the records summed out, given `CellLaws`, or
    None if it has none for these laws. It has `start(rng)`, `step(point, tuning, rng)`,
    `learn(point, tuning)`, `forget(tuning)`, `theta(point)`, `point(theta)` and `draw(point, rng)`,
    as in `noiseaware.models.summed_regression`."""

    misfit: str = "the model, the prior, the query or the scale is not what made the release"
    """What the checks say, and what to try, when released values vary more than the model
    allows."""

    # Records whose columns are released separately (`moves.ConditionalMove`).
    mirror_parameters: Draw | None = None
    """(theta, rng) -> theta': a map that is its own inverse and has determinant 1 or -1, to a sign
    that the release may leave open. The rng may choose among several such maps.
    `moves.ConditionalMove`."""
    seen_records: Draw | None = None
    """(records, laws, rng) -> what is seen of the records, with further variables imputed given
    them if needed. It has `log_p(theta)`, with the records integrated out, and `draw(theta, rng)`,
    which draws them, as in `noiseaware.maths.seen_normals`. laws[j] is the `CellLaws` of column j,
    or None if it is not released."""

    # Help for users.
    closed_form: Callable[[Reading, int], ClosedForm | None] | None = None
    """(reading, n) -> theta given all that the records say, or None if the reading says less. Naive
    analysis and bootstrap."""
    derived: Sequence[Parameter] = ()
    """Quantities derived from theta and shown beside it in the posterior."""
    derive: Callable[[Any], Mapping[str, Any]] | None = None
    """Draws of theta (first axis the draw) -> the derived quantities, in the same layout."""
    predict_response: Draw | None = None
    """(theta, features, rng) -> E(y) and a draw of y for each row of features. `predict`."""
    check_records: Callable[[Any], None] | None = None
    """ValueError if these cannot be records of the model."""
    column_names: Sequence[str] | None = None
    """A name for each column of a record. Data frames and imputed databases."""
    to_dict: Callable[[], dict[str, Any]] | None = None
    """The model as JSON; needed for files, not for sampling."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The model's parameters."""
        return tuple(self.model.parameters)

    @property
    def shown(self) -> tuple[Parameter, ...]:
        """A posterior's variables: parameters, the table of counts, and derived quantities."""
        counts = () if self.count_table is None else (self.count_table,)
        return (*self.parameters, *counts, *self.derived)

    @property
    def has_density(self) -> bool:
        """Whether the model has a prior density and a likelihood, as ready-made kernels need."""
        return self.log_prior is not None and self.log_likelihood is not None

    @cached_property
    def can_update(self) -> bool:
        """Whether there is a kernel for p(theta | x): the model's own, or a ready-made one."""
        recovers = self.recover_innovations is not None
        return self.update_parameters is not None or (
            self.has_density and (recovers or self.build_records is None)
        )

    @cached_property
    def can_transport(self) -> bool:
        """Whether records are built from u, and u is known whenever theta moves.

        Either u can be recovered from x, or nothing else moves theta and the chain carries u.
        """
        return self.build_records is not None and (
            self.recover_innovations is not None or not self.can_update
        )

    @cached_property
    def holds_innovations(self) -> bool:
        """Whether the chain must carry u: a simulator that cannot recover u from x."""
        return self.can_transport and self.recover_innovations is None

    def index(self, numbers: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        """Return the extra argument of methods that make records: which records they make."""
        return {"index": numbers} if self.uses_index else {}


class Size(Protocol):
    """A prior for the number of records n, if the release does not give it; see `sizes`."""

    @property
    def lower(self) -> int:
        """The smallest n with positive probability, at least 1."""

    @property
    def upper(self) -> int:
        """The largest n with positive probability."""

    def log_pmf(self, n: int) -> float:
        """Return log p(n), up to a constant, for n from `lower` to `upper`. Moves of n."""

    def sample(self, rng: np.random.Generator) -> int:
        """Draw n. Used to start a chain."""


@dataclass(frozen=True)
class SizeAbilities:
    """What a prior for n can do beyond `Size`. Each field is its own, or the default if absent."""

    size: Any

    flat: bool = False
    """Every n from `lower` to `upper` has the same probability."""


# ------------------------------------------------------------------ queries


class Query(Protocol):
    """What was asked: record i adds the row t(x_i) to the total, and noise is added to that."""

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each of the d coordinates of the total."""

    def statistic(self, records: Any) -> Floats:
        """Return t(x_i) for each record, (n, d). Called in every sweep; need not check values."""


@dataclass(frozen=True)
class QueryAbilities(Named):
    """What a query can do. Each field is the query's own member, or None if absent."""

    query: Any

    cells: Callable[[Any], NDArray[np.int64]] | None = None
    """records -> the k cells to which each adds 1, (n, k), with -1 for none: the total is a table
    of counts. The sampler then touches only the cells that a proposal changes."""
    placed: Callable[[Any], Floats] | None = None
    """records -> (n, 1 + w): the first coordinate to which each record adds, and the w numbers that
    it adds to that coordinate and the next ones. d and the first coordinate are multiples of w. The
    sampler then touches only these."""
    total: Callable[[Any], Floats] | None = None
    """records -> sum_i t(x_i), (d,), without a row for each record. Transport."""
    check_records: Callable[[Any], None] | None = None
    """ValueError if the query cannot be asked of these records. Before sampling; `privatize`."""
    sensitivity: Callable[..., float] | None = None
    """(norm, neighbours=...) -> how far one record can move the total. Mechanisms, `validate`."""
    neighbours: Neighbours | None = None
    """The one relation for which the sensitivity is known; None: both. `validate`."""
    integer_valued: bool = False
    """Every coordinate is an integer, so discrete noise makes sense."""
    n_cells: int | None = None
    """The number of possible values of a record, if the query fixes it; a model's `record_values`
    must agree in number and order."""
    point: float | None = None
    """The value that is counted, if the query counts a single value; the model must then be able to
    make records with whole numbers."""
    weighted: Callable[[Floats], Any] | None = None
    """weights (d,) -> the same query with each coordinate of the total multiplied by its weight.
    Guarantees of noise with a separate scale for each coordinate."""
    is_value: bool = False
    """The statistic of a record is the record itself, one number. Mechanisms' `record_laws`."""
    column_names: Sequence[str] | None = None
    """The columns of a data frame that the query reads, in order."""
    to_dict: Callable[[], dict[str, Any]] | None = None
    """The query as JSON: its type and the arguments of its constructor."""
    words: Callable[[], Sequence[str]] | None = None
    """What was asked, in sentences for the report."""
    possible: Callable[[Floats, int], Floats] | None = None
    """(totals, n) -> the nearest totals that n records can give. Naive analysis."""
    reading: Callable[[Floats, int], Reading | None] | None = None
    """(totals, n) -> what they say about the records if exact. Naive analysis."""
    regression_clamps: tuple[Floats, Floats] | None = None
    """c and f, (p + 1,) each: the total is the regression moments of records whose entries z enter
    as (z - c) f, clamped to [-1, 1]. Formulas of models."""
    part_columns: Callable[[tuple[int, ...]], Any] | None = None
    """(I, J_1, ..., J_K) -> what a record with a class and K features adds to the total for its
    class and each feature's level, (d, C), with C as in `Parts`; None if the total is not such a
    sum."""
    n_groups: int | None = None
    """The number of groups, which the first column of a record gives. Each group has the same
    number of coordinates, in order, and only its own records add to them. `moves.GroupMove`."""
    group: int | None = None
    """The group that the query is about, if only one. Parallel composition of guarantees."""


# ------------------------------------------------------------------ mechanisms


class Mechanism(Protocol):
    """How an answer was made private: the distribution of the released values given the total."""

    query: Any
    """What was asked."""

    def log_density(self, values: Any, total: Any) -> float:
        """Return log g(s_dp, T), up to a constant that does not depend on T. Acceptance step."""


@dataclass(frozen=True)
class MechanismAbilities(Named):
    """What a mechanism can do. Each field is its own member, or None if absent."""

    mechanism: Any

    # The density in a form that compiled loops can read; otherwise log_density is called.
    terms: Callable[[Any], Any] | None = None
    """values -> `mechanisms.SeparableDensity`, if log g is a sum over the coordinates of T."""
    joint: Callable[[Any], Any] | None = None
    """values -> `mechanisms.JointDensity`, one of the compiled formulas in all of T."""
    statistic: Callable[[Any, Any, Any], Floats] | None = None
    """(records, index, values) -> t_i(x_i, s_dp), (m, d), replacing the query's statistic."""
    total_length: Callable[[Any], int] | None = None
    """values -> the length d of T, if the mechanism has its own `statistic`. `Several`."""
    n_values: Callable[[int], int] | None = None
    """n -> the number of values for n records, if only some of them are about one record each."""
    per_record: int = 0
    """The number of released values that each record has of its own (the local model); True is 1.
    `values` holds those of the first record, then those of the second, and so on."""
    record_laws: Callable[[Any], Any] | None = None
    """values -> `mechanisms.terms.CellLaws`: log h(s_i | x_i) of each record as a function of the
    single number x_i; None if it does not have that form. `moves.CellMove`."""
    record_constants: Callable[[Any], Floats] | None = None
    """values -> the log constants that would normalise `record_laws`, (n,). `interop`'s `Noisy`."""
    record_tails: Callable[[Any, Any], Sequence[Floats]] | None = None
    """(records, values) -> log P(Y < s), log P(Y = s) and log P(Y > s) for each released value s,
    where Y is another release of the same record. A withheld value is below all others; one that
    was not asked for has P(Y = s) = 1. Checks of whether the release fits the model."""
    noise_sds: Callable[[int], Floats] | None = None
    """n -> the approximate noise standard deviation of each of n values. The same checks."""
    column_laws: Callable[[Any, int], Any] | None = None
    """(values, width) -> the `CellLaws` of each of `width` columns of a record, None for a column
    that is not released; None if the release is not of this form. `moves.ConditionalMove`."""
    can_withhold: bool = False
    """A released value may be NaN, meaning that it was withheld."""
    exact_parts: Callable[[Any], Sequence[tuple[Any, Floats]]] | None = None
    """values -> pairs of a query whose total is published exactly, and that total; None if there
    are none. Most databases then have density 0: needs a chain of counts or
    `moves.ExchangeMove`."""

    # The guarantee, and files.
    guarantee: Any = None
    """A `mechanisms.Guarantee`. Checks of the acceptance rate, the report, composition."""
    neighbours: Neighbours = "change"
    """The neighbour relation of the guarantee."""
    check_values: Callable[[Any], Floats] | None = None
    """values -> float64 (d,), or a ValueError that names the bad value. `Release`."""
    privatize: Callable[..., Any] | None = None
    """(records, rng) -> a simulated `Release`. Studies, calibration, tests."""
    to_dict: Callable[[], dict[str, Any]] | None = None
    """The mechanism as JSON. Release files."""
    words: Callable[[], Sequence[str]] | None = None
    """How the numbers were made private, in sentences for the report."""
    noisy_totals: bool = False
    """The values are totals with noise added, so a naive analyst could take them as exact."""
    log_normaliser: Callable[[Any], float] | None = None
    """values -> c such that exp(log_density + c), summed or integrated over all releases, is 1 for
    every total. `evidence`."""
    with_scale: Callable[[Any], Any] | None = None
    """scale -> the same mechanism with this noise scale. The naive analysis makes it small."""

    @property
    def change_epsilon(self) -> float | None:
        """The epsilon for one changed record, if pure differential privacy is guaranteed."""
        return None if self.guarantee is None else self.guarantee.change_epsilon


class Loss(Protocol):
    """A convex loss of a record and an output s with q entries; see `mechanisms.losses`."""

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each entry of s."""

    def gradient(self, records: Any, s: Floats) -> Floats:
        """Return the gradient of each record's loss at s, (n, q)."""

    def check_records(self, records: Any) -> None:
        """Raise ValueError if the loss cannot take these records."""


@dataclass(frozen=True)
class LossAbilities:
    """What a loss can do. Each field is its own member, or None if absent."""

    loss: Any

    hessian: Callable[[Any, Floats], Floats] | None = None
    """(records, s) -> each record's Hessian, (n, q, q). Objective perturbation."""
    derivatives: Callable[[Any, Floats], Floats] | None = None
    """(records, s) -> gradient and the Hessian's upper triangle side by side, in one pass."""
    gradients: Callable[[Any, Floats], Floats] | None = None
    """(records, grid) -> gradients at K outputs, (n, K, q). The K-norm gradient mechanism."""
    sensitivity: Callable[..., float] | None = None
    """(norm, neighbours=...) -> how far one record can move the summed gradient, for any s."""
    hessian_bound: Callable[[], tuple[float, int]] | None = None
    """-> (c, r): a record's Hessian has eigenvalues at most c and rank at most r."""
    quadratic: bool = False
    """The Hessian does not depend on s."""
    constant_hessian: bool = False
    """The Hessian does not depend on the record either."""
    to_dict: Callable[[], dict[str, Any]] | None = None
    """The loss as JSON."""


# ------------------------------------------------------------------ kernels and moves


class Maps(Protocol):
    """A map between theta and an unconstrained real vector v: a model's own `coordinates`."""

    @property
    def size(self) -> int:
        """The length of v."""

    def to_vector(self, theta: Theta) -> Floats:
        """Return v with theta(v) = theta, (size,)."""

    def from_vector(self, v: Any) -> tuple[Any, Any]:
        """Return theta(v) and the log of the Jacobian |d theta / d v|."""


class Kernel(Protocol):
    """A kernel for p(theta | x): what an analyst would use on the confidential data.

    A plain function `kernel(theta, records, rng) -> theta` also works.
    """

    def step(self, target: Any, state: Any, tuning: dict[str, Any]) -> tuple[float, ...]:
        """Change `state.theta`, leaving p(theta | x) invariant; return one number per report."""


def _do_nothing(*_: Any) -> None:
    """Default for an absent ability. A function rather than a lambda, so that it can be pickled."""


def _learn_nothing(target: Any, state: Any) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class KernelAbilities:
    """What a kernel object can do. Each field is its own, or the default if absent."""

    kernel: Any

    step: Callable[..., tuple[float, ...]] | None = None
    """See `Kernel`; None for a plain function."""
    reports: tuple[str, ...] = ()
    """The names of the numbers that `step` returns."""
    check: Callable[[Any], None] = _do_nothing
    """target -> ValueError if its model lacks something the kernel needs. Before sampling."""
    start: Callable[[Any, Any], dict[str, Any]] = _learn_nothing
    """(target, state) -> its tuning, which holds all that it learns: chains share the kernel."""
    learn: Callable[..., None] = _do_nothing
    """(target, state, tuning): update the tuning. Called after each step of warm-up only."""
    freeze: Callable[..., None] = _do_nothing
    """(target, state, tuning): called when warm-up ends."""

    @property
    def name(self) -> str:
        """The name shown in messages."""
        return getattr(self.kernel, "__name__", repr(self.kernel))


class Move(Protocol):
    """One way to advance a chain; a list of moves is a sampler."""

    @property
    def reports(self) -> Sequence[str]:
        """The names of the numbers that `step` returns."""

    def check(self, target: Any) -> None:
        """Raise ValueError if the move cannot work on this target. Called before sampling."""

    def start(self, target: Any, state: Any) -> dict[str, Any]:
        """Return the initial tuning."""

    def step(self, target: Any, state: Any, tuning: dict[str, Any]) -> tuple[float, ...]:
        """Change `state` in place, leaving p(theta, x | s_dp) invariant; return the reports."""

    def learn(self, target: Any, state: Any, tuning: dict[str, Any]) -> None:
        """Update `tuning`. Called after each step of warm-up only."""


@dataclass(frozen=True)
class MoveAbilities:
    """What a move can do beyond `Move`. Each field is its own, or the default if absent."""

    move: Any

    run: Callable[..., tuple[Any, Any]] | None = None
    """(target, state, tuning, m) -> the draws of m iterations, one row each, and their reports,
    (m, ...). Replaces m calls of step, with the same outcome, when this is the only move."""
    most: Callable[[Any], int] = lambda target: 1
    """target -> the largest m for `run`; 1: `run` is not called."""
    find_start: Callable[..., None] | None = None
    """(target, state): move to a better starting point than a draw from the prior."""
    freeze: Callable[..., None] | None = None
    """(target, state, tuning): warm-up ends, and the tuning is final."""
    options: Callable[..., Sequence[Any]] | None = None
    """(target, state, tuning) -> ways to continue after warm-up, `sampler.moves.tuning.Option`."""
    take: Callable[[dict[str, Any], int], None] | None = None
    """(tuning, which): continue with this option. `Interweave`."""
    chooses: bool = False
    """`freeze` chooses among tuning["options"]. It stores the choice in tuning["option"] and, in
    tuning["outlook"], the expected iterations per effective draw and their cost beyond an iteration
    of Algorithm 1."""
    brief: Callable[..., float | None] | None = None
    """(target, state, tuning, log_g), where log_g is log g at the current state or None: make a
    cheap draw in place of all moves of an `Interweave` and return the new log g; or do nothing and
    return None, if state.iteration says that no cheap draw is due."""
    moves: Sequence[Any] = ()
    """The moves inside this one. Messages that name a user's method search them."""
    kernel: Any = None
    """A user's kernel inside the move, searched likewise."""
    proposal: Any = None
    """A user's proposal inside the move, searched likewise."""
    on_counts: bool = False
    """The move works on the counts of possible records, not on a list of records."""
    blocks: bool = False
    """One accept/reject decision may cover several records, which lowers the acceptance rate. The
    checks after a run say so."""
    moves_size: bool = False
    """The move changes the number of records if that is unknown."""
    keeps_exact: bool = False
    """The move starts from the exact numbers of a release and preserves them."""
    lowest: Collection[str] = ()
    """Reports whose minimum is kept when several steps make one draw."""
    record_sums: Callable[[dict[str, Any]], Any] | None = None
    """tuning -> `sampler.record_sums.RecordSums`: the sums over draws for each record."""
    scratch: Sequence[str] = ()
    """Attributes that a step may overwrite because the next step does not read them."""


@dataclass(frozen=True)
class HeldAbilities:
    """How an object inside a tuning describes itself, so that a checkpoint can store it.

    Numbers, text, arrays, and lists, tuples and dictionaries of these need no description.
    """

    held: Any

    learned: tuple[str, ...] | None = None
    """The attributes that change after construction; their values are plain, or describe
    themselves in turn. On resuming, `start` constructs the object and these are then set."""
    _fields: tuple[str, ...] | None = None
    """The fields of a named tuple, which is rebuilt from all of them."""


# ------------------------------------------------------------------ looking

Abilities = TypeVar("Abilities")


def _look(kind: type[Abilities], thing: Any) -> Abilities:
    """Return `kind` filled with the members of `thing`; missing or None leaves the default."""
    own, *others = fields(kind)  # type: ignore[arg-type]
    found = {field.name: getattr(thing, field.name, None) for field in others}
    present = {name: value for name, value in found.items() if value is not None}
    return kind(**{own.name: thing}, **present)


size_abilities = partial(_look, SizeAbilities)
query_abilities = partial(_look, QueryAbilities)
mechanism_abilities = partial(_look, MechanismAbilities)
loss_abilities = partial(_look, LossAbilities)
kernel_abilities = partial(_look, KernelAbilities)
move_abilities = partial(_look, MoveAbilities)
held_abilities = partial(_look, HeldAbilities)

_PRIOR = ("sample_prior", "log_prior", "log_likelihood", "update_parameters")


def _where(model: Any, name: str) -> int:
    """Return how far up a member is defined: -1 on the object, 0 in its class, 1 in its base..."""
    if name in getattr(model, "__dict__", {}):
        return -1
    mro = type(model).__mro__
    return next((k for k, base in enumerate(mro) if name in vars(base)), len(mro))


def model_abilities(model: Any) -> ModelAbilities:
    """Return what a model can do.

    If a subclass of a ready-made model changes the prior or the likelihood, the inherited
    abilities on counts no longer hold and are dropped.
    """
    found = _look(ModelAbilities, model)
    said = min(_where(model, "update_from_counts"), _where(model, "from_gammas"))
    if any(_where(model, m) < said for m in _PRIOR):
        found = replace(found, update_from_counts=None, from_gammas=None, counts_prior=None)
    old = getattr(model, "stretch_records", None)
    if old is None or found.scale_records is not None:
        return found
    deprecated.warn(f"{found.name}.stretch_records", "scale_records")
    return replace(found, scale_records=old)


def draw_records(
    model: Model, theta: Theta, index: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[Any]:
    """Draw the records with these indices from f(. | theta), by the method that the model has."""
    able = model_abilities(model)
    if able.sample_records is not None:
        return able.sample_records(theta, len(index), rng, **able.index(index))
    assert able.build_records is not None
    assert able.innovations is not None
    return able.build_records(theta, able.innovations.draw(len(index), rng), **able.index(index))


def poisson_means(model: Model, theta: Theta) -> Floats:
    """Return the mean count of each possible record under a model with `random_size`, (C,)."""
    able = model_abilities(model)
    assert able.log_likelihood is not None
    return np.asarray(np.exp(able.log_likelihood(theta, able.record_values)))


def draw_poisson_records(model: Model, theta: Theta, rng: np.random.Generator) -> NDArray[Any]:
    """Draw all records of a model with `random_size`, in the order of `record_values`."""
    counts = rng.poisson(poisson_means(model, theta))
    return np.repeat(np.asarray(model_abilities(model).record_values), counts, axis=0)


def total_of(query: Query, records: NDArray[Any]) -> Floats:
    """Return sum_i t(x_i), (d,), without holding a row for every record at once."""
    d, able = len(query.names), query_abilities(query)
    if able.total is not None:
        return able.total(records)
    if able.cells is not None:
        found = able.cells(records)
        return np.bincount(found[found >= 0], minlength=d).astype(np.float64)
    rows = max(1, _MOST_NUMBERS // d)
    total = query.statistic(records[:rows]).sum(axis=0)
    for begin in range(rows, len(records), rows):
        total += query.statistic(records[begin : begin + rows]).sum(axis=0)
    return total


def missing(thing: Any, protocol: type) -> list[str]:
    """Return the members of a protocol that an object lacks."""
    wanted = [*protocol.__annotations__, *vars(protocol)]
    return [name for name in wanted if not name.startswith("_") and not hasattr(thing, name)]


def check_query(query: Any) -> Query:
    """Return the query; TypeError unless it has what mechanisms need."""
    lacks = missing(query, Query)
    if query_abilities(query).sensitivity is None:
        lacks.append("sensitivity")
    if lacks or isinstance(query, type):
        raise TypeError(
            "query must be a query, such as noiseaware.queries.Count(); "
            f"got {query!r}" + (f", which has no {', '.join(lacks)}" if lacks else "")
        )
    return cast(Query, query)
