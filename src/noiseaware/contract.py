"""The contract: what models, sizes, queries, mechanisms, kernels and moves must have, and may have.

A class of yours inherits nothing. It has the members of the protocol of its kind, `Model`, `Query`,
`Mechanism`, `Loss`, `Kernel` or `Move`, and as many of the *abilities* as it needs: members that
the package looks for and uses if they are there. Each ability is a field of `ModelAbilities`,
`QueryAbilities` and so on, with a line that says who calls it and what it must satisfy.

`model_abilities(model)` and its siblings look once and return one typed object. An ability that is
missing, or None, is absent; nothing else in the package asks an object what it has. So a class that
wraps another says that it lacks an ability by setting it to None.
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
different ("bounded", the paper's); `"add-remove"`: one database has one record more ("unbounded").
"""

_MOST_NUMBERS = 2**24
"""Of statistics that are held at a time, 128 MiB."""

Floats = NDArray[np.float64]
Draw = Callable[..., Any]


class Reading(NamedTuple):
    """What the totals of a query say of n records, for somebody who takes them as exact.

    Numbers that noise has made impossible are moved to possible ones first.
    """

    kind: Literal["counts", "sum", "tables", "moments", "groups"]
    """What `values` are."""
    values: Any
    """"counts": of the records at 0, 1, ..., (J,). "sum": of the records, one number. "tables":
    counts of classes, (I,), and of each feature's levels by class, [(I, J_k), ...]. "moments":
    the mean, (q,), and the scatter matrix, (q, q), of the columns. "groups": a function from the
    sizes of the groups to a reading of each, None if there is another number of groups."""
    words: str
    """What was done to the numbers, to go on from "taken as exact"."""
    bounds: tuple[Any, Any] = (-np.inf, np.inf)
    """Where records, or columns, were clamped."""


class ClosedForm(NamedTuple):
    """A model's answer to a reading that is all that the records say of theta."""

    estimate: Theta
    """The maximum likelihood estimate."""
    draw: Callable[[int, np.random.Generator], Theta] | None = None
    """(draws, rng) -> draws of p(theta | x), (draws, *shape). None: `update_parameters` draws, on
    any records with these moments."""


class Named:
    """Abilities of an object that messages call by its class."""

    @property
    def name(self) -> str:
        """What messages call it."""
        return type(next(iter(vars(self).values()))).__name__


# ------------------------------------------------------------------ models


class CountsPrior(NamedTuple):
    """The prior of a table of C counts x, with theta integrated out.

        log p(x) = sum_c [log Gamma(a_c + x_c) + b_c x_c - log x_c!]
                   + sum_r s_r log Gamma(h_r + (M x)_r) + constant,

    without the first term of a cell where a_c = 0. The constant is -log Gamma(`whole` + n), n the
    number of records.
    """

    concentrations: Floats
    """a, (C,)."""
    matrix: Any = None
    """M, (R, C), an array or a sparse matrix; None: there are no rows."""
    shifts: Floats = np.zeros(0)
    """h, (R,)."""
    signs: Floats = np.zeros(0)
    """s, (R,)."""
    slopes: Floats | None = None
    """b, (C,); None: zeros."""
    whole: float | None = None
    """Only needed where the number of records is not known. 0: there is no such term."""


class LogLinear(NamedTuple):
    """Poisson means m of C counts, log m = D b, with b_j ~ N(mu_j, 1 / w_j) independently.

    b is the model's theta as a vector, in the order of its parameters.
    """

    design: Any
    """D, (C, P), a sparse array in columns."""
    centres: Floats
    """mu, (P,)."""
    precisions: Floats
    """w, (P,)."""
    largest: float
    """What no log mean may exceed."""


class Parts(NamedTuple):
    """Records that are a class and K features, independent given it, as a query sees them.

    A record stands in K cells: for each feature the one of its class, that feature and its level.
    Cells are numbered by class, then by feature, then by level. All that the query and theta are
    told of the records is how many stand in each cell, (C,).
    """

    levels: tuple[int, ...]
    """I, J_1, ..., J_K: how many classes there are, and levels of each feature."""
    columns: Any
    """What a record adds to the total for each cell that it stands in, (d, C), maybe sparse."""
    prior: CountsPrior
    """log p of one database with these counts: in it, log Gamma(a_c + x_c) has no -log x_c!."""
    from_gammas: Callable[[Floats], Theta]
    """As `ModelAbilities.from_gammas`, of the gammas of this prior."""
    log_cells: Callable[[Theta], Floats]
    """theta -> (C,), whose sum over the cells in which a record stands is log f of it."""


class Model(Protocol):
    """What made the confidential records: a prior, and a way to make records.

    The sampler needs one of two ways to make records, `sample_records` or `build_records`, and one
    of three ways to move theta: `update_parameters`, `log_prior` with `log_likelihood`, or
    `build_records` with `log_prior` (see `ModelAbilities`).
    """

    @property
    def parameters(self) -> Sequence[Parameter]:
        """Name, shape and support of each parameter. Read by everything."""

    def sample_prior(self, rng: np.random.Generator) -> Theta:
        """Draw theta from the prior, inside the declared supports. Starts a chain."""


@dataclass(frozen=True)
class ModelAbilities(Named):
    """What a model can do. A field is the model's own method or attribute, or None if absent."""

    model: Any

    # Making records.
    sample_records: Draw | None = None
    """(theta, n, rng) -> n records from f(. | theta). Sweeps; not needed with build_records."""
    build_records: Draw | None = None
    """(theta, u) -> records x_i = F(u_i; theta), distributed as f(. | theta). Transport."""
    innovations: Innovations | None = None
    """The distribution of u_i; goes with build_records."""
    recover_innovations: Draw | None = None
    """(theta, records, rng) -> u drawn from p(u | x, theta), so that F(u; theta) = x. Transport."""
    uses_index: bool = False
    """Records are not alike: the makers of records also take `index`, which records to make."""
    n_records: int | None = None
    """The number of records, where the model itself fixes it; the release must agree."""

    # Densities and kernels.
    log_prior: Callable[[Any], float] | None = None
    """theta -> log p(theta), up to a constant. Transport, and the ready kernels."""
    log_likelihood: Callable[[Any, Any], Floats] | None = None
    """(theta, records) -> log f(x_i | theta), (n,). The ready kernels, Algorithm 2, `validate`."""
    update_parameters: Draw | None = None
    """(theta, records, rng) -> theta, by a kernel that leaves p(theta | x) invariant."""
    kernel: Any = None
    """A kernel object of the model's own, used instead of the ready one."""
    jax_log_density: Any = None
    """(theta, records) -> log p(theta, x) in JAX. `kernels.BlackJax` and NumPyro's NUTS."""

    # What helps the sampler along.
    coordinates: Any = None
    """The model's own map between theta and an unconstrained vector, in place of the default."""
    group_levels: slice | None = None
    """Which of the coordinates v are independent standard normals, given the others, one for each
    group of records in order, which alone answers to it. Its `coordinates` then have
    `spread_of(v)`, how far a level goes with its coordinate, and `around(theta)`, coordinates of
    the rest with these held. `moves.GroupMove`."""
    scale_records: Draw | None = None
    """(theta, records, amount) -> theta', records', log ratio: a direction that releases do not
    see. `moves.ScaleMove` has the condition on it."""
    formula: Draw | None = None
    """(query, n) -> a formula for the total given u, or None for a query without one. Transport."""
    record_values: Any = None
    """All the values that a record can have, (C, ...), where these are few. The state of a chain is
    then how many records have each, if the model has log_likelihood with log_prior or
    update_from_counts, or a counts_prior; `validate`."""
    record_levels: int | None = None
    """How many levels an entry of a record has, where they are integers from 0: many records are
    then held in the smallest type for these."""
    value_groups: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    """(C,) the group of each of `record_values` and (G,) the records in each group, where records
    are in groups of known sizes. None: all records are alike."""
    update_from_counts: Draw | None = None
    """(theta, counts, rng) -> theta, as update_parameters for records with these counts, (C,)."""
    random_size: bool = False
    """The model is about the number of records too: given theta, those with the value v are a
    Poisson number with mean exp(log_likelihood(theta, v)). Only for chains of counts; a release
    need not say n_records."""
    counts_prior: CountsPrior | None = None
    """p(counts) with theta integrated out. from_gammas or update_from_counts then draws from
    p(theta | counts)."""
    from_gammas: Callable[[Floats], Theta] | None = None
    """(m, K) logarithms of gamma variables -> m draws of theta, first axis the draw. Given the
    counts, theta is a function of independent gammas: one of shape a_c + x_c for each cell of the
    counts_prior with a_c > 0, then one of shape h_r + (M x)_r for each row with s_r = 1. A chain
    then does many iterations in one call."""
    parts: Callable[[Any], Parts | None] | None = None
    """query -> the `Parts` of records, or None if it sees more than them. A chain then counts how
    many records stand in each cell, of which there are fewer than possible records."""
    log_linear: LogLinear | None = None
    """The means of a model with random_size, if they are that. Chains of counts: theta then follows
    the counts on their lines (`counts.following`)."""
    count_table: Parameter | None = None
    """The counts as a variable of the posterior, where it shows them: name, shape and labels."""

    # Records that are counts, each with a law of its own (`moves.CellMove`).
    count_law: Draw | None = None
    """(theta, n, index=None) -> code, rate (n,) and size (n,): the law f of each count, as
    `noiseaware.maths.cells.log_mass` reads it."""
    summed_kernel: Draw | None = None
    """(laws, n) -> a kernel for p(theta | s_dp) with the records summed out, given `CellLaws`, or
    None if it has none for these laws:
    `start(rng)`, `step(point, tuning, rng)`, `learn(point, tuning)`, `forget(tuning)`,
    `theta(point)`, `point(theta)`, `draw(point, rng)`, as `noiseaware.models.summed_regression` has
    them."""

    misfit: str = "the model, the prior, the query or the scale is not what made the release"
    """What is said of a release whose values vary more than the model allows, and what to try.
    Checks."""

    # Records whose columns are released one by one (`moves.ConditionalMove`).
    mirror_parameters: Draw | None = None
    """(theta, rng) -> theta', its own inverse with a determinant of 1 or -1, which the rng may
    choose among several: to another sign that a release may leave open. `moves.ConditionalMove`."""
    seen_records: Draw | None = None
    """(records, laws, rng) -> what is seen of the records, with more imputed given them if need be:
    `log_p(theta)`, with the records integrated out, and `draw(theta, rng)` of these, as
    `noiseaware.maths.seen_normals` has them; laws[j] is the `CellLaws` of column j, or None where
    that is not released."""

    # What helps its users.
    closed_form: Callable[[Reading, int], ClosedForm | None] | None = None
    """(reading, n) -> theta given all that the records say, or None if the reading says less. The
    naive analysis, the bootstrap."""
    derived: Sequence[Parameter] = ()
    """Quantities that follow from theta and stand beside it in the posterior."""
    derive: Callable[[Any], Mapping[str, Any]] | None = None
    """Draws of theta (first axis the draw) -> the derived quantities, likewise."""
    predict_response: Draw | None = None
    """(theta, features, rng) -> E(y) and a draw of y for each row of the features. `predict`."""
    check_records: Callable[[Any], None] | None = None
    """ValueError if these cannot be records of this model."""
    column_names: Sequence[str] | None = None
    """A name for each column of a record. Frames and imputed databases."""
    to_dict: Callable[[], dict[str, Any]] | None = None
    """The model as JSON; needed to write it into a file, not to sample."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The model's parameters."""
        return tuple(self.model.parameters)

    @property
    def shown(self) -> tuple[Parameter, ...]:
        """The parameters, the table of counts, and what is derived: a posterior's variables."""
        counts = () if self.count_table is None else (self.count_table,)
        return (*self.parameters, *counts, *self.derived)

    @property
    def has_density(self) -> bool:
        """There are a prior density and a likelihood, so a ready kernel can be used."""
        return self.log_prior is not None and self.log_likelihood is not None

    @cached_property
    def can_update(self) -> bool:
        """There is a kernel for p(theta | x): the model's own, or a ready one."""
        recovers = self.recover_innovations is not None
        return self.update_parameters is not None or (
            self.has_density and (recovers or self.build_records is None)
        )

    @cached_property
    def can_transport(self) -> bool:
        """Records are built from u, and u is known whenever theta moves.

        Either u can be recovered from x, or nothing else moves theta and the chain carries u.
        """
        return self.build_records is not None and (
            self.recover_innovations is not None or not self.can_update
        )

    @cached_property
    def holds_innovations(self) -> bool:
        """The model is only a simulator: u cannot be recovered from x, so the chain carries it."""
        return self.can_transport and self.recover_innovations is None

    def index(self, numbers: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        """Return what a maker of records is told about which records it makes."""
        return {"index": numbers} if self.uses_index else {}


class Size(Protocol):
    """A prior for the number of records n, where the release does not say it; see `sizes`."""

    @property
    def lower(self) -> int:
        """The smallest n with positive probability, at least 1."""

    @property
    def upper(self) -> int:
        """The largest n with positive probability."""

    def log_pmf(self, n: int) -> float:
        """Return log p(n), up to a constant, of an n from `lower` to `upper`. Moves of n."""

    def sample(self, rng: np.random.Generator) -> int:
        """Draw n. Starts a chain."""


@dataclass(frozen=True)
class SizeAbilities:
    """What a prior for n can do beyond `Size`. A field is its own, or the default if absent."""

    size: Any

    flat: bool = False
    """Every n from `lower` to `upper` has the same probability."""


# ------------------------------------------------------------------ queries


class Query(Protocol):
    """What was asked: record i adds the row t(x_i) to the total, to which noise is added."""

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each of the d coordinates of the total."""

    def statistic(self, records: Any) -> Floats:
        """Return t(x_i) of each record, (n, d). Called in every sweep: it need not check values."""


@dataclass(frozen=True)
class QueryAbilities(Named):
    """What a query can do. A field is the query's own method or attribute, or None if absent."""

    query: Any

    cells: Callable[[Any], NDArray[np.int64]] | None = None
    """records -> the k cells to which each adds 1, (n, k), -1 for none: the total is a table of
    counts. The sampler then touches only the cells that a proposal changes."""
    placed: Callable[[Any], Floats] | None = None
    """records -> (n, 1 + w): the first coordinate to which each adds, and the w numbers that it
    adds to that one and the next; d is a multiple of w, and the first a multiple of it too. The
    sampler then touches only these."""
    total: Callable[[Any], Floats] | None = None
    """records -> sum_i t(x_i), (d,), without a row for each record. Transport."""
    check_records: Callable[[Any], None] | None = None
    """ValueError if the query cannot be asked of these records. Before sampling; `privatize`."""
    sensitivity: Callable[..., float] | None = None
    """(norm, neighbours=...) -> how far one record can move the total. Mechanisms, `validate`."""
    neighbours: Neighbours | None = None
    """The one relation for which the sensitivity is known, if it is not for both. `validate`."""
    integer_valued: bool = False
    """Every coordinate is an integer, so that discrete noise makes sense."""
    n_cells: int | None = None
    """The number of values that a record can have, where the query fixes it; a model that lists
    its `record_values` must agree, in number and order."""
    point: float | None = None
    """The one value that is counted, where the query is a count of it; a model must be able to make
    records with whole numbers then."""
    weighted: Callable[[Floats], Any] | None = None
    """weights (d,) -> the same query with each coordinate of the total multiplied by its weight.
    The guarantee of noise with a scale for each coordinate."""
    is_value: bool = False
    """The statistic of a record is the record itself, one number. `record_laws` of mechanisms."""
    column_names: Sequence[str] | None = None
    """The columns of a frame that the query reads, in order."""
    to_dict: Callable[[], dict[str, Any]] | None = None
    """The query as JSON: its type and the arguments of its constructor."""
    words: Callable[[], Sequence[str]] | None = None
    """What was asked, in sentences for the report."""
    possible: Callable[[Floats, int], Floats] | None = None
    """(totals, n) -> the nearest totals that n records can give. The naive analysis."""
    reading: Callable[[Floats, int], Reading | None] | None = None
    """(totals, n) -> what they say of the records if they are exact. The naive analysis."""
    regression_clamps: tuple[Floats, Floats] | None = None
    """c and f, (p + 1,) each: the total is the regression moments of records whose entries z count
    as (z - c) f, clamped to [-1, 1]. Formulas of models."""
    part_columns: Callable[[tuple[int, ...]], Any] | None = None
    """(I, J_1, ..., J_K) -> what a record of a class and K features adds to the total for its class
    and level of each feature, (d, C), with C as in `Parts`; None if it is not a sum of such."""
    n_groups: int | None = None
    """How many groups the records are in, by their first column, of which each has as many
    coordinates, in order, to which its records alone add. `moves.GroupMove`."""
    group: int | None = None
    """The one group that the query is about, if it is. Parallel composition of guarantees."""


# ------------------------------------------------------------------ mechanisms


class Mechanism(Protocol):
    """How an answer was made private: the law of the released values given the total."""

    query: Any
    """What was asked."""

    def log_density(self, values: Any, total: Any) -> float:
        """Return log g(s_dp, T), up to a constant that does not depend on T. The accept step."""


@dataclass(frozen=True)
class MechanismAbilities(Named):
    """What a mechanism can do. A field is its own method or attribute, or None if absent."""

    mechanism: Any

    # The density, in a form that compiled loops can read. Without either, log_density is called.
    terms: Callable[[Any], Any] | None = None
    """values -> `mechanisms.SeparableDensity`, where log g is a sum over the coordinates of T."""
    joint: Callable[[Any], Any] | None = None
    """values -> `mechanisms.JointDensity`, one of the compiled formulas of all of T."""
    statistic: Callable[[Any, Any, Any], Floats] | None = None
    """(records, index, values) -> t_i(x_i, s_dp), (m, d), in place of the query's own."""
    total_length: Callable[[Any], int] | None = None
    """values -> the length d of T, where `statistic` is the mechanism's own. `Several`."""
    n_values: Callable[[int], int] | None = None
    """n -> how many values there are of n records, where some but not all are about one record."""
    per_record: int = 0
    """How many released values every record has of its own (the local model); True is 1. `values`
    are those of the first record, then those of the second, and so on."""
    record_laws: Callable[[Any], Any] | None = None
    """values -> `mechanisms.terms.CellLaws`: log h(s_i | x_i) of each record, a function of the one
    number x_i; or None if it is not that. `moves.CellMove`."""
    record_constants: Callable[[Any], Floats] | None = None
    """values -> what each of `record_laws` lacks to be normalised, (n,). `interop`'s `Noisy`."""
    record_tails: Callable[[Any, Any], Sequence[Floats]] | None = None
    """(records, values) -> log P(Y < s), log P(Y = s) and log P(Y > s) for each released value s,
    Y being another one of the same record; a value that is withheld is below all others, and one
    that was not asked for has P(Y = s) = 1. Whether the release fits the model."""
    noise_sds: Callable[[int], Floats] | None = None
    """n -> about the standard deviation of the noise of each of n values. The same, in words."""
    column_laws: Callable[[Any, int], Any] | None = None
    """(values, width) -> for each of so many columns of a record its `CellLaws`, or None where it
    is not released; None if what is seen is not of this form. `moves.ConditionalMove`."""
    can_withhold: bool = False
    """A released value may be NaN: it was withheld."""
    exact_parts: Callable[[Any], Sequence[tuple[Any, Floats]]] | None = None
    """values -> the queries whose totals are published exactly, each with these; None if there are
    none. Most databases then have density 0: a chain of counts, or `moves.ExchangeMove`."""

    # What is promised, and files.
    guarantee: Any = None
    """A `mechanisms.Guarantee`. Checks of the acceptance, the report, composition."""
    neighbours: Neighbours = "change"
    """The relation that the guarantee is about."""
    check_values: Callable[[Any], Floats] | None = None
    """values -> float64 (d,), or a ValueError that names the bad one. Making a `Release`."""
    privatize: Callable[..., Any] | None = None
    """(records, rng) -> a simulated `Release`. Studies, calibration, tests."""
    to_dict: Callable[[], dict[str, Any]] | None = None
    """The mechanism as JSON. Release files."""
    words: Callable[[], Sequence[str]] | None = None
    """How the numbers were made private, in sentences for the report."""
    noisy_totals: bool = False
    """The values are totals with noise added, so that somebody may take them as exact."""
    log_normaliser: Callable[[Any], float] | None = None
    """values -> c such that log_density + c is normalised: exp of it, summed or integrated over
    all releases, is 1 for every total. `evidence`."""
    with_scale: Callable[[Any], Any] | None = None
    """scale -> the same mechanism with other noise. The naive analysis makes the noise small."""

    @property
    def change_epsilon(self) -> float | None:
        """The epsilon for one changed record, if pure differential privacy is promised."""
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
    """What a loss can do. A field is its own method or attribute, or None if absent."""

    loss: Any

    hessian: Callable[[Any, Floats], Floats] | None = None
    """(records, s) -> each record's Hessian, (n, q, q). Objective perturbation."""
    derivatives: Callable[[Any, Floats], Floats] | None = None
    """(records, s) -> gradient and the Hessian's upper triangle side by side, in one pass."""
    gradients: Callable[[Any, Floats], Floats] | None = None
    """(records, grid) -> gradients at K outputs, (n, K, q). The K-norm gradient mechanism."""
    sensitivity: Callable[..., float] | None = None
    """(norm, neighbours=...) -> how far one record can move the summed gradient, whatever s."""
    hessian_bound: Callable[[], tuple[float, int]] | None = None
    """-> (c, r): a record's Hessian has eigenvalues of at most c and rank at most r."""
    quadratic: bool = False
    """The Hessian does not depend on s."""
    constant_hessian: bool = False
    """Nor on the record."""
    to_dict: Callable[[], dict[str, Any]] | None = None
    """The loss as JSON."""


# ------------------------------------------------------------------ kernels and moves


class Maps(Protocol):
    """Maps between theta and a real vector v without constraints: a model's own `coordinates`."""

    @property
    def size(self) -> int:
        """The length of v."""

    def to_vector(self, theta: Theta) -> Floats:
        """Return v with theta(v) = theta, (size,)."""

    def from_vector(self, v: Any) -> tuple[Any, Any]:
        """Return theta(v), and the log of the Jacobian |d theta / d v|."""


class Kernel(Protocol):
    """A kernel for p(theta | x): what an analyst would use on the confidential data.

    A plain function `kernel(theta, records, rng) -> theta` is one as well.
    """

    def step(self, target: Any, state: Any, tuning: dict[str, Any]) -> tuple[float, ...]:
        """Change `state.theta` so that p(theta | x) is invariant; return one number per report."""


def _do_nothing(*_: Any) -> None:
    """In place of an ability that is absent; chains go to workers with it, as no lambda could."""


def _learn_nothing(target: Any, state: Any) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class KernelAbilities:
    """What a kernel object can do. A field is its own, or the default if absent."""

    kernel: Any

    step: Callable[..., tuple[float, ...]] | None = None
    """See `Kernel`; None for a plain function."""
    reports: tuple[str, ...] = ()
    """The names of the numbers that a step reports."""
    check: Callable[[Any], None] = _do_nothing
    """target -> ValueError if its model lacks what the kernel needs. Before sampling."""
    start: Callable[[Any, Any], dict[str, Any]] = _learn_nothing
    """(target, state) -> its tuning. All that it learns is in there: chains share the kernel."""
    learn: Callable[..., None] = _do_nothing
    """(target, state, tuning): change the tuning. After each step of warm-up, never later."""
    freeze: Callable[..., None] = _do_nothing
    """(target, state, tuning): warm-up ends."""

    @property
    def name(self) -> str:
        """What messages call the kernel."""
        return getattr(self.kernel, "__name__", repr(self.kernel))


class Move(Protocol):
    """One way in which a chain advances; a list of moves is a sampler."""

    @property
    def reports(self) -> Sequence[str]:
        """The names of the numbers that a step reports."""

    def check(self, target: Any) -> None:
        """Raise ValueError if the target cannot do this move. Before sampling."""

    def start(self, target: Any, state: Any) -> dict[str, Any]:
        """Return the move's tuning at the beginning."""

    def step(self, target: Any, state: Any, tuning: dict[str, Any]) -> tuple[float, ...]:
        """Change `state` in place so that p(theta, x | s_dp) is invariant; a number per report."""

    def learn(self, target: Any, state: Any, tuning: dict[str, Any]) -> None:
        """Change `tuning`. Called after each step in warm-up only."""


@dataclass(frozen=True)
class MoveAbilities:
    """What a move can do beyond `Move`. A field is its own, or the default if absent."""

    move: Any

    run: Callable[..., tuple[Any, Any]] | None = None
    """(target, state, tuning, m) -> what is drawn in m iterations, one row each, and their
    reports, (m, ...). Where it is the only move: in place of m calls of step, and with their
    outcome."""
    most: Callable[[Any], int] = lambda target: 1
    """target -> the largest m for which `run` is called; 1: it is not."""
    find_start: Callable[..., None] | None = None
    """(target, state): go to a better place for a chain to begin than a draw from the prior."""
    freeze: Callable[..., None] | None = None
    """(target, state, tuning): warm-up ends; what was learned is final."""
    options: Callable[..., Sequence[Any]] | None = None
    """(target, state, tuning) -> ways to go on after warm-up, `sampler.moves.tuning.Option`."""
    take: Callable[[dict[str, Any], int], None] | None = None
    """(tuning, which): go on as one of the options says. `Interweave`."""
    chooses: bool = False
    """Its `freeze` chooses among tuning["options"], and leaves in tuning["option"] which, and in
    tuning["outlook"] the iterations that an effective draw should cost then, and what they cost
    beyond an iteration of Algorithm 1."""
    brief: Callable[..., float | None] | None = None
    """(target, state, tuning, log_g), log_g being log g where the chain is, or None: make a draw
    that costs little, in place of all moves of an `Interweave`, and return log g there; or do
    nothing and return None, if state.iteration says that it is not time for one."""
    moves: Sequence[Any] = ()
    """The moves inside this one. Messages that name a user's method look into them."""
    kernel: Any = None
    """A kernel of the user's inside the move, likewise."""
    proposal: Any = None
    """A proposal of the user's inside the move, likewise."""
    on_counts: bool = False
    """The move is about the counts of each possible record, not about a list of records."""
    blocks: bool = False
    """One decision may be about several records, which are then accepted less often than one is.
    The checks after a run say so."""
    moves_size: bool = False
    """It changes the number of records where that is not known."""
    keeps_exact: bool = False
    """It begins with the exact numbers of a release, and keeps them."""
    lowest: Collection[str] = ()
    """Those of its reports of which the lowest is kept where several steps make one draw."""
    record_sums: Callable[[dict[str, Any]], Any] | None = None
    """tuning -> `sampler.record_sums.RecordSums`: what was added up of each record."""
    scratch: Sequence[str] = ()
    """Attributes that a step may overwrite, because the next one does not read them."""


@dataclass(frozen=True)
class HeldAbilities:
    """What an object in a tuning says of itself, so that a checkpoint can hold what it learned.

    Numbers, text, arrays, and lists, tuples and dictionaries of these need to say nothing.
    """

    held: Any

    learned: tuple[str, ...] | None = None
    """The attributes that change after the object was made; their values are plain, or say the
    same of themselves. When a run is resumed, `start` makes the object anew, and these are set."""
    _fields: tuple[str, ...] | None = None
    """Those of a named tuple, which is made anew with all of them."""


# ------------------------------------------------------------------ looking

Abilities = TypeVar("Abilities")


def _look(kind: type[Abilities], thing: Any) -> Abilities:
    """Return `kind` filled with the members of `thing`; what is missing or None has its default."""
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

    A class of yours that derives from a ready model and has another prior or likelihood has not
    what the ready one says of its counts: that is dropped.
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
    """Draw the records with these numbers from f(. | theta), by whatever the model makes them."""
    able = model_abilities(model)
    if able.sample_records is not None:
        return able.sample_records(theta, len(index), rng, **able.index(index))
    assert able.build_records is not None
    assert able.innovations is not None
    return able.build_records(theta, able.innovations.draw(len(index), rng), **able.index(index))


def poisson_means(model: Model, theta: Theta) -> Floats:
    """Return the mean count of each possible record, of a model with `random_size`, (C,)."""
    able = model_abilities(model)
    assert able.log_likelihood is not None
    return np.asarray(np.exp(able.log_likelihood(theta, able.record_values)))


def draw_poisson_records(model: Model, theta: Theta, rng: np.random.Generator) -> NDArray[Any]:
    """Draw all records of a model with `random_size`, in the order of the possible ones."""
    counts = rng.poisson(poisson_means(model, theta))
    return np.repeat(np.asarray(model_abilities(model).record_values), counts, axis=0)


def total_of(query: Query, records: NDArray[Any]) -> Floats:
    """Return sum_i t(x_i), (d,), without a row for every record at once."""
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
    """Return the members of a protocol that an object does not have."""
    wanted = [*protocol.__annotations__, *vars(protocol)]
    return [name for name in wanted if not name.startswith("_") and not hasattr(thing, name)]


def check_query(query: Any) -> Query:
    """Return the query; TypeError unless it has what a mechanism asks of one."""
    lacks = missing(query, Query)
    if query_abilities(query).sensitivity is None:
        lacks.append("sensitivity")
    if lacks or isinstance(query, type):
        raise TypeError(
            "query must be a query, such as noiseaware.queries.Count(); "
            f"got {query!r}" + (f", which has no {', '.join(lacks)}" if lacks else "")
        )
    return cast(Query, query)
