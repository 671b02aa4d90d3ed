"""Every mechanism through one contract: its shapes, its files, its errors."""

import json
import pickle

import numpy as np
import pytest

import noiseaware as na
from noiseaware import contract
from noiseaware.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Guarantee,
    Laplace,
    SeparableDensity,
    from_dict,
)
from noiseaware.registry import MECHANISMS

COUNT = na.queries.Count(value=1)
LEVELS = na.queries.Histogram(n_levels=3)
SUM = na.queries.Sum(lower=0.0, upper=5.0)

ALL = [Laplace, Gaussian, DiscreteLaplace, DiscreteGaussian]
SETTINGS = [
    (Laplace, {"epsilon": 0.1}),
    (Laplace, {"scale": 13.0}),
    (DiscreteLaplace, {"epsilon": 0.3}),
    (DiscreteLaplace, {"scale": 2.5}),
    (Gaussian, {"scale": 2.0}),
    (Gaussian, {"epsilon": 0.3, "delta": 1e-7}),
    (Gaussian, {"rho": 0.3}),
    (Gaussian, {"mu": 0.7}),
    (DiscreteGaussian, {"scale": 2.0}),
    (DiscreteGaussian, {"epsilon": 0.3, "delta": 1e-7}),
    (DiscreteGaussian, {"rho": 0.3}),
]
each_setting = pytest.mark.parametrize(
    ("kind", "setting"), SETTINGS, ids=[f"{k.__name__}-{'-'.join(s)}" for k, s in SETTINGS]
)
each_mechanism = pytest.mark.parametrize("kind", ALL)


# ------------------------------------------------------------------ shapes and values


@each_setting
def test_a_mechanism_has_what_the_sampler_asks_for(kind, setting):
    mechanism = kind(LEVELS, **setting)
    assert not contract.missing(mechanism, contract.Mechanism)
    assert mechanism.query is LEVELS
    assert isinstance(mechanism.scale, float)
    assert mechanism.scale > 0
    assert isinstance(mechanism.guarantee, Guarantee)
    terms = mechanism.terms([4, 5, 6])
    assert type(terms) is SeparableDensity
    assert terms.family.dtype == np.int64
    assert terms.family.shape == (3,)
    assert terms.parameters.dtype == np.float64
    assert terms.parameters.shape == (3, 4)
    assert terms.parameters.flags.c_contiguous
    np.testing.assert_array_equal(terms.parameters[:, 0], [4.0, 5.0, 6.0])
    np.testing.assert_array_equal(terms.parameters[:, 1], 1.0 / mechanism.scale)
    value = mechanism.log_density([4, 5, 6], [4, 5, 7])
    assert isinstance(value, float)
    assert value < mechanism.log_density([4, 5, 6], [4, 5, 6])


@each_mechanism
def test_log_density_needs_a_total_of_the_right_shape(kind):
    with pytest.raises(ValueError, match=r"total must have shape \(3,\); got \(2,\)"):
        kind(LEVELS, scale=1.0).log_density([1, 2, 3], [1, 2])


@each_mechanism
def test_check_values_returns_new_floats(kind):
    values = np.array([1.0, -2.0, 3.0])
    checked = kind(LEVELS, scale=1.0).check_values(values)
    assert checked.dtype == np.float64
    np.testing.assert_array_equal(checked, values)
    assert not np.shares_memory(checked, values)
    assert kind(COUNT, scale=1.0).check_values(7).shape == (1,)


@each_mechanism
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, 2], r"values must be 3 numbers, one for each name of the query \(.*\); got 2"),
        (np.ones((3, 1)), r"values must be 3 numbers.*; got an array of shape \(3, 1\)"),
        ([1, np.nan, 2], "values must be finite; got nan for "),
        ([1, 2, -np.inf], "values must be finite; got -inf for "),
        (["a", "b", "c"], r"values must be numbers; got \['a', 'b', 'c'\]"),
        (["1", "2", "3"], r"values must be numbers; got \['1', '2', '3'\]"),
        (np.array([1j, 2, 3]), r"values must be numbers; got "),
        ([1, [2, 3]], r"values must be numbers; got \[1, \[2, 3\]\]"),
        (None, "values must be finite; got nan|values must be 3 numbers"),
    ],
)
def test_bad_values(kind, values, message):
    with pytest.raises((ValueError, TypeError), match=message):
        kind(LEVELS, scale=1.0).check_values(values)


def test_values_under_discrete_noise_are_integers():
    for kind in (DiscreteLaplace, DiscreteGaussian):
        with pytest.raises(
            ValueError, match=r"values must be integers under discrete noise; got 2\.5 for 'count"
        ):
            kind(COUNT, scale=1.0).check_values([2.5])
    assert Laplace(COUNT, scale=1.0).check_values([2.5]) == [2.5]


def test_a_long_list_of_names_is_shortened():
    query = na.queries.Histogram(n_levels=40)
    with pytest.raises(ValueError, match=r"values must be 40 numbers") as error:
        Laplace(query, scale=1.0).check_values([1.0])
    assert len(str(error.value)) < 200


# ------------------------------------------------------------------ privatize


@each_mechanism
def test_privatize_makes_a_release(kind):
    records = np.array([0, 1, 2, 2, 2])
    mechanism = kind(LEVELS, scale=1.0)
    before = np.random.get_state()[1].copy()  # noqa: NPY002 (that it is not used is the point)
    release = mechanism.privatize(records, np.random.default_rng(1))
    again = mechanism.privatize(records, np.random.default_rng(1))
    rng = np.random.default_rng(1)
    mechanism.privatize(records, rng)
    another = mechanism.privatize(records, rng)
    assert isinstance(release, na.Release)
    assert release.mechanism is mechanism
    assert release.n_records == 5
    assert release.values.shape == (3,)
    np.testing.assert_array_equal(release.values, again.values)
    assert not np.array_equal(release.values, another.values)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    if kind.discrete:
        np.testing.assert_array_equal(release.values, np.rint(release.values))


@each_mechanism
def test_privatize_releases_the_total_when_the_noise_is_nothing(kind):
    release = kind(LEVELS, scale=1e-6).privatize([0, 1, 2, 2, 2], np.random.default_rng(1))
    np.testing.assert_allclose(release.values, [1.0, 1.0, 3.0], atol=1e-4)


@each_mechanism
def test_privatize_checks_what_it_gets(kind):
    mechanism = kind(LEVELS, scale=1.0)
    with pytest.raises(TypeError, match=r"rng must be a numpy\.random\.Generator.*got 3"):
        mechanism.privatize([0, 1], 3)
    with pytest.raises(ValueError, match="3"):
        mechanism.privatize([0, 3], np.random.default_rng(1))


# ------------------------------------------------------------------ bad arguments


@each_mechanism
@pytest.mark.parametrize("name", ["scale", "epsilon"])
@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf])
def test_numbers_must_be_positive(kind, name, value):
    setting = {name: value}
    if name == "epsilon" and kind in (Gaussian, DiscreteGaussian):
        setting["delta"] = 1e-6
    with pytest.raises(ValueError, match=f"{name} must be a positive number; got {value}"):
        kind(COUNT, **setting)


@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf])
def test_rho_and_mu_must_be_positive(value):
    for kind, name in [(Gaussian, "rho"), (Gaussian, "mu"), (DiscreteGaussian, "rho")]:
        with pytest.raises(ValueError, match=f"{name} must be a positive number; got {value}"):
            kind(COUNT, **{name: value})


@pytest.mark.parametrize("value", [0, 1, 1.5, -0.1, np.nan])
def test_delta_must_be_a_probability(value):
    for kind in (Gaussian, DiscreteGaussian):
        with pytest.raises(
            ValueError, match=f"delta must be strictly between 0 and 1; got {value}"
        ):
            kind(COUNT, epsilon=1.0, delta=value)


@each_mechanism
@pytest.mark.parametrize("value", ["1", True, 1j])
def test_numbers_must_be_numbers(kind, value):
    with pytest.raises(TypeError, match="scale must be a positive number; got "):
        kind(COUNT, scale=value)


@each_mechanism
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.0, 2.0], r"one for each of the query's 3 numbers; got shape \(2,\)"),
        (np.ones((3, 1)), r"one for each of the query's 3 numbers; got shape \(3, 1\)"),
        ([1.0, 0.0, 2.0], "scale must be positive numbers; got 0.0 in place 1"),
        ([1.0, 2.0, np.nan], "scale must be positive numbers; got nan in place 2"),
    ],
)
def test_a_scale_for_each_number_must_fit(kind, value, message):
    with pytest.raises(ValueError, match=message):
        kind(na.queries.Histogram(n_levels=3), scale=value)
    with pytest.raises(TypeError, match="scale must be a positive number, or 3 of them"):
        kind(na.queries.Histogram(n_levels=3), scale=["1", "2", "3"])


@pytest.mark.parametrize(
    ("kind", "setting", "message"),
    [
        (Laplace, {}, "give exactly one of epsilon and scale; got none of them"),
        (
            DiscreteLaplace,
            {"epsilon": 1.0, "scale": 1.0},
            "give exactly one of epsilon and scale; got epsilon and scale",
        ),
        (
            Gaussian,
            {},
            r"give exactly one of scale, epsilon \(with delta\), rho and mu; got none of them",
        ),
        (Gaussian, {"rho": 1.0, "mu": 1.0}, "got rho and mu"),
        (Gaussian, {"scale": 1.0, "epsilon": 1.0, "delta": 0.1}, "got scale and epsilon"),
        (Gaussian, {"scale": 1.0, "delta": 0.1}, "together; epsilon is missing"),
        (Gaussian, {"epsilon": 1.0}, "epsilon and delta must be given together; delta is missing"),
        (DiscreteGaussian, {"epsilon": 1.0}, "together; delta is missing"),
        (
            DiscreteGaussian,
            {},
            r"give exactly one of scale, epsilon \(with delta\) and rho; got none of them",
        ),
        (DiscreteGaussian, {"scale": 1.0, "rho": 1.0}, "got scale and rho"),
        (DiscreteGaussian, {"mu": 1.0}, "mu is not available for DiscreteGaussian.*give rho"),
    ],
)
def test_exactly_one_way_of_setting_the_noise(kind, setting, message):
    with pytest.raises(ValueError, match=message):
        kind(COUNT, **setting)


def test_discrete_noise_needs_an_integer_valued_query():
    with pytest.raises(
        ValueError,
        match=r"for DiscreteLaplace; Sum is not \(use Laplace, or integer_valued=True",
    ):
        DiscreteLaplace(SUM, epsilon=1.0)
    with pytest.raises(ValueError, match=r"for DiscreteGaussian; Sum is not \(use Gaussian, or"):
        DiscreteGaussian(SUM, rho=1.0)


@each_mechanism
def test_query_must_be_a_query(kind):
    with pytest.raises(TypeError, match=r"query must be a query.*got 1\.0, which has no names"):
        kind(1.0, scale=1.0)
    with pytest.raises(TypeError, match=r"query must be a query.*got <class"):
        kind(na.queries.Count, scale=1.0)


@each_mechanism
def test_neighbours_must_be_one_of_two(kind):
    with pytest.raises(ValueError, match="neighbours must be 'change' or 'add-remove'; got 'both'"):
        kind(COUNT, scale=1.0, neighbours="both")


# ------------------------------------------------------------------ sensitivity that is not known


def test_a_scale_needs_no_sensitivity_and_the_guarantee_is_then_unknown():
    query = na.Query(np.tanh, names=["tanh"], sensitivity={1: 2.0})
    mechanism = Gaussian(query, scale=3.0)
    assert mechanism.guarantee.kind == "unknown"
    assert mechanism.guarantee.pure_epsilon is None
    assert mechanism.guarantee.change_epsilon is None
    assert "norm 2" in str(mechanism.guarantee)
    with pytest.raises(ValueError, match=r"no delta is known: .*norm 2"):
        mechanism.guarantee.delta_at(1.0)
    with pytest.raises(ValueError, match="norm 2"):
        Gaussian(query, rho=1.0)
    with pytest.raises(ValueError, match="add-remove"):
        Laplace(query, epsilon=1.0, neighbours="add-remove")


class Unbounded:
    """A query of unclamped records."""

    names = ("sum",)
    integer_valued = True

    def statistic(self, records):
        return np.asarray(records, dtype=float)[:, np.newaxis]

    def sensitivity(self, norm=1, neighbours="change"):
        return np.inf


@each_mechanism
def test_an_infinite_sensitivity_gives_no_guarantee_and_no_scale(kind):
    assert kind(Unbounded(), scale=1.0).guarantee.kind == "unknown"
    setting = {"epsilon": 1.0} if "Laplace" in kind.__name__ else {"rho": 1.0}
    with pytest.raises(ValueError, match="sensitivity is inf, which gives the scale inf"):
        kind(Unbounded(), **setting)


# ------------------------------------------------------------------ the guarantee in words


def test_guarantees_in_words():
    assert str(Laplace(COUNT, epsilon=0.5).guarantee) == (
        "pure differential privacy with epsilon = 0.5, when one record is changed"
    )
    assert str(Gaussian(COUNT, epsilon=1.0, delta=1e-6, neighbours="add-remove").guarantee) == (
        "approximate differential privacy with epsilon = 1 and delta = 1e-06, "
        "when one record is added or removed"
    )
    assert str(DiscreteGaussian(COUNT, rho=0.25).guarantee) == (
        "zero-concentrated differential privacy with rho = 0.25, when one record is changed"
    )
    assert str(Gaussian(COUNT, scale=2.0).guarantee) == (
        "Gaussian differential privacy with mu = 0.5 (and zCDP with rho = 0.125), "
        "when one record is changed"
    )


def test_the_sensitivity_is_that_of_the_neighbours():
    assert Laplace(LEVELS, epsilon=1.0).scale == 2.0
    assert Laplace(LEVELS, epsilon=1.0, neighbours="add-remove").scale == 1.0
    assert Laplace(LEVELS, epsilon=1.0, neighbours="add-remove").guarantee.change_epsilon == 2.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "strong"}, "kind must be one of pure, .*; got 'strong'"),
        ({"kind": "pure"}, "epsilon is needed for a guarantee of kind 'pure'"),
        ({"kind": "approximate", "epsilon": 1.0}, "delta is needed"),
        ({"kind": "pure", "epsilon": -1.0}, "epsilon must be a number that is at least 0; got -1"),
        ({"kind": "zCDP", "rho": float("nan")}, "rho must be a number that is at least 0; got nan"),
        ({"kind": "GDP", "mu": "1"}, "mu must be a number that is at least 0; got '1'"),
        ({"kind": "pure", "epsilon": 1.0, "neighbours": "x"}, "neighbours must be 'change' or"),
    ],
)
def test_bad_guarantees(arguments, message):
    with pytest.raises(ValueError, match=message):
        Guarantee(**arguments)


def test_delta_at_needs_an_epsilon():
    for epsilon in (-1.0, float("nan"), "1"):
        with pytest.raises(ValueError, match="epsilon must be a number that is at least 0; got"):
            Guarantee("pure", epsilon=1.0).delta_at(epsilon)


# ------------------------------------------------------------------ files


@each_setting
@pytest.mark.parametrize("neighbours", ["change", "add-remove"])
def test_to_json_and_back(kind, setting, neighbours):
    mechanism = kind(LEVELS, neighbours=neighbours, **setting)
    entries = json.loads(json.dumps(mechanism.to_dict(), allow_nan=False))
    back = from_dict(entries)
    assert type(back) is kind
    assert back.scale == mechanism.scale
    assert back.neighbours == neighbours
    assert back.guarantee == mechanism.guarantee
    assert back.to_dict() == mechanism.to_dict()
    assert back.log_density([1, 2, 3], [3, 2, 2]) == mechanism.log_density([1, 2, 3], [3, 2, 2])


@each_setting
def test_pickled_for_another_process(kind, setting):
    mechanism = kind(LEVELS, **setting)
    assert pickle.loads(pickle.dumps(mechanism)).to_dict() == mechanism.to_dict()


@each_mechanism
def test_repr_can_be_read(kind):
    assert repr(kind(COUNT, scale=2.0)).startswith(f"{kind.__name__}(Count(")
    assert repr(kind(COUNT, scale=2.0)).endswith("scale=2.0)")
    assert "neighbours='add-remove'" in repr(kind(COUNT, scale=2.0, neighbours="add-remove"))


def test_the_least_that_a_file_must_say():
    entries = {"type": "Laplace", "scale": 13, "query": LEVELS.to_dict()}
    mechanism = from_dict(entries)
    assert mechanism.scale == 13.0
    assert mechanism.guarantee.pure_epsilon == pytest.approx(2.0 / 13.0)


def test_a_user_function_cannot_be_written():
    with pytest.raises(ValueError, match="cannot be written to a file"):
        Laplace(na.Query(np.tanh, names=["tanh"], sensitivity=2.0), scale=1.0).to_dict()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"type": "Cauchy"},
            "type of a mechanism must be one of Attributes, CellKey, Clamped, .*; got 'Cauchy'",
        ),
        (
            {"type": ["Laplace"]},
            "type of a mechanism must be one of Attributes, CellKey, Clamped, ",
        ),
        ({"neighbours": ["change"]}, "neighbours must be 'change' or 'add-remove'; got "),
        ({"guarantee": {"kind": ["pure"]}}, "kind must be one of pure, "),
        ({"scale": -1.0}, "scale must be a positive number; got -1"),
        ({"scale": None}, "scale must be a positive number; got None"),
        ({"scale": "1"}, "scale must be a positive number; got '1'"),
        ({"query": {"type": "Nothing"}}, "Nothing"),
        ({"neighbours": "x"}, "neighbours must be 'change' or 'add-remove'; got 'x'"),
        ({"epsilon": 1.0}, "Laplace may have type, .*; got 'epsilon'.*states the scale"),
        ({"guarantee": "pure"}, "guarantee must be a dictionary with a 'kind'; got 'pure'"),
        ({"guarantee": {"kind": "pure", "eps": 1}}, "guarantee may hold kind, .*; got 'eps'"),
        (
            {"guarantee": {"kind": "pure", "epsilon": 0.9}},
            r"guarantee states pure .* epsilon = 0\.9, .* sensitivity give pure .* epsilon = 1,",
        ),
        ({"guarantee": {"kind": "approximate", "epsilon": 0.9, "delta": 1e-6}}, "states approx"),
        (
            {"guarantee": {"kind": "pure", "epsilon": 1.0, "neighbours": "add-remove"}},
            "guarantee is stated for neighbours 'add-remove', but the mechanism's are 'change'",
        ),
    ],
)
def test_bad_files(change, message):
    entries = {"type": "Laplace", "scale": 2.0, "query": LEVELS.to_dict()} | change
    with pytest.raises((ValueError, TypeError), match=message):
        from_dict(entries)


@pytest.mark.parametrize("name", ["type", "scale", "query"])
def test_a_file_that_lacks_something(name):
    entries = {"type": "Laplace", "scale": 2.0, "query": LEVELS.to_dict()}
    del entries[name]
    message = f"Laplace must have scale, query; '{name}' is missing"
    if name == "type":
        message = 'a mechanism must be described by a "type" and arguments; got {'
    with pytest.raises(ValueError, match=message):
        from_dict(entries)


def test_a_file_that_describes_no_mechanism():
    with pytest.raises(ValueError, match=r'a mechanism must be described by a "type" .*; got \[\]'):
        from_dict([])


@pytest.mark.parametrize(
    ("kind", "stated", "shown"),
    [
        # Weaker than the truth (epsilon = 2 / 2): the truth is shown.
        ("Laplace", {"kind": "pure", "epsilon": 1.5}, Guarantee("pure", epsilon=1.0)),
        ("Laplace", {"kind": "zCDP", "rho": 0.5}, Guarantee("pure", epsilon=1.0)),
        (
            "Laplace",
            {"kind": "approximate", "epsilon": 1.0, "delta": 1e-9},
            Guarantee("pure", epsilon=1.0),
        ),
        # Gaussian: l2 sensitivity sqrt(2), rho = 1/4.
        ("DiscreteGaussian", {"kind": "zCDP", "rho": 0.4}, Guarantee("zCDP", rho=0.25)),
        (
            "DiscreteGaussian",
            {"kind": "approximate", "epsilon": 4.0, "delta": 1e-3},
            Guarantee("approximate", epsilon=4.0, delta=1e-3, rho=0.25),
        ),
        ("DiscreteGaussian", {"kind": "unknown", "reason": "-"}, Guarantee("zCDP", rho=0.25)),
    ],
)
def test_a_true_claim_is_kept_and_a_weaker_one_gives_way(kind, stated, shown):
    entries = {"type": kind, "scale": 2.0, "query": LEVELS.to_dict(), "guarantee": stated}
    guarantee = from_dict(entries).guarantee
    assert guarantee.kind == shown.kind
    for name in ("epsilon", "delta", "rho"):
        assert getattr(guarantee, name) == pytest.approx(getattr(shown, name))


@pytest.mark.parametrize(
    "stated",
    [
        {"kind": "pure", "epsilon": 100.0},
        {"kind": "GDP", "mu": 0.7},
        {"kind": "zCDP", "rho": 0.2},
        {"kind": "approximate", "epsilon": 1.0, "delta": 1e-9},
    ],
)
def test_a_claim_that_the_noise_does_not_keep_is_an_error(stated):
    entries = {"type": "Gaussian", "scale": 2.0, "query": LEVELS.to_dict(), "guarantee": stated}
    with pytest.raises(ValueError, match=r"guarantee states .*, but the scale and the query's"):
        from_dict(entries)


# ------------------------------------------------------------------ what a class says of itself

every_class = pytest.mark.parametrize("name", MECHANISMS.names)


@every_class
def test_the_example_goes_to_a_file_and_back(name):
    example = MECHANISMS[name].example()
    entries = json.loads(json.dumps(example.to_dict(), allow_nan=False))
    back = from_dict(entries)
    assert type(back) is type(example) is MECHANISMS[name]
    assert back.to_dict() == entries
    assert repr(back) == repr(example)
    assert repr(back).startswith(f"{name}(")


@every_class
def test_words_are_sentences(name):
    words = MECHANISMS[name].example().words()
    assert words
    assert all(text[0].isupper() or text[0] == "(" for text in words)
    assert all(text.endswith(".") for text in words)


def test_the_words_of_noise_and_steps():
    noise = "Random Laplace noise with scale 2 (a standard deviation of 2.83) was added to"
    assert Laplace(COUNT, scale=2.0).words() == [f"{noise} each of these numbers."]
    local = na.mechanisms.LocalLaplace(SUM, scale=2.0)
    assert local.words() == [f"{noise} every record, one by one."]
    clamped = na.mechanisms.Clamped(Laplace(COUNT, scale=2.0), lower=0.0)
    assert clamped.words()[1:] == [
        "After the noise they were clamped to a range: Clamped, lower 0. This analysis takes that "
        "into account."
    ]
    both = na.mechanisms.Several([Laplace(COUNT, scale=2.0), clamped], labels=["a", "b"]).words()
    assert both[0] == "There are 2 releases about the same records."
    assert [text[:4] for text in both[1:]] == ["(a) ", "(b) "]


def test_which_values_are_totals_with_noise():
    others = {"Exponential", "KNormGradient", "ObjectivePerturbation", "RandomizedResponse"}
    others |= {"LocalGaussian", "LocalGeometric", "LocalLaplace", "Several", "Exact"}
    others |= {"LocalDiscreteGaussian", "RandomRounding", "CellKey", "LocalExact", "Attributes"}
    noisy = {name for name in MECHANISMS.names if MECHANISMS[name].noisy_totals}
    assert noisy == set(MECHANISMS.names) - others


@each_setting
def test_the_same_mechanism_with_other_noise(kind, setting):
    mechanism = kind(LEVELS, neighbours="add-remove", **setting)
    other = mechanism.with_scale(0.25)
    assert (type(other), other.query, other.neighbours) == (kind, LEVELS, "add-remove")
    assert other.to_dict() == kind(LEVELS, scale=0.25, neighbours="add-remove").to_dict()
    assert mechanism.to_dict() == kind(LEVELS, neighbours="add-remove", **setting).to_dict()


def test_only_additive_noise_can_be_made_small():
    can = [
        name
        for name in MECHANISMS.names
        if contract.mechanism_abilities(MECHANISMS[name].example()).with_scale
    ]
    assert can == ["DiscreteGaussian", "DiscreteLaplace", "Functional", "Gaussian", "Laplace"]


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        (na.mechanisms, "Terms", SeparableDensity),
        (na.mechanisms.terms, "Terms", SeparableDensity),
        (na.mechanisms.joint, "Joint", na.mechanisms.JointDensity),
        (na.mechanisms, "MechanismLike", contract.Mechanism),
        (na.mechanisms.losses, "LossLike", contract.Loss),
        (na.queries, "QueryLike", contract.Query),
        (na.queries, "CountsQueryLike", contract.Query),
    ],
)
def test_an_old_name_works_and_warns(module, old, new):
    with pytest.warns(DeprecationWarning, match=f"{old} is now noiseaware"):
        assert getattr(module, old) is new
