"""Tumult's noise information, in the forms in which it travels; Tumult itself is not needed."""

import enum
import math

import pytest

import noiseaware as na
from mutants.planting import Edit, planted


def read(*arguments):
    return na.interop.tumult.release(*arguments)


class NoiseMechanism(enum.Enum):
    """Stands for Tumult's enumeration, of which only the names are read."""

    LAPLACE = 1
    GEOMETRIC = 2
    DISCRETE_GAUSSIAN = 3
    EXPONENTIAL = 4
    GAUSSIAN = 5


HISTOGRAM = na.queries.Histogram(n_levels=2)


@pytest.mark.parametrize(
    ("member", "written"),
    [
        (NoiseMechanism.LAPLACE, na.mechanisms.Laplace),
        (NoiseMechanism.GEOMETRIC, na.mechanisms.DiscreteLaplace),
        (NoiseMechanism.GAUSSIAN, na.mechanisms.Gaussian),
        (NoiseMechanism.DISCRETE_GAUSSIAN, na.mechanisms.DiscreteGaussian),
    ],
)
def test_every_noise_is_read(member, written):
    # The parameter of the Gaussian kinds is the variance.
    scale = math.sqrt(6.25) if "GAUSSIAN" in member.name else 6.25
    expected = na.Release([3.0, 4.0], written(HISTOGRAM, scale=scale, neighbours="add-remove"), 9)
    for name in (member, member.name, str(member), member.name.lower()):
        info = {"noise_mechanism": name, "noise_parameter": 6.25}
        for form in (info, [info]):
            assert read(form, [3, 4], HISTOGRAM, 9).to_dict() == expected.to_dict()


def test_the_scale_of_a_count_is_one_over_epsilon():
    """As in Tumult's documentation: a count with epsilon = 0.5 has the noise parameter 2."""
    info = [{"noise_mechanism": NoiseMechanism.GEOMETRIC, "noise_parameter": 2}]
    release = read(info, [3], na.queries.Count(1), 9)
    assert release.mechanism.guarantee.epsilon == pytest.approx(0.5)
    assert release.mechanism.guarantee.neighbours == "add-remove"


def test_a_table_of_counts_by_groups():
    info = {"noise_mechanism": "DISCRETE_GAUSSIAN", "noise_parameter": 9.0}
    released = {"sex": ["m", "f", "f", "m"], "adult": [0, 1, 0, 1], "count": [4, 31, -2, 12]}
    release = na.interop.tumult.table(info, released)
    assert release.names[:2] == ("sex=f,adult=0", "sex=f,adult=1")
    assert release.values.tolist() == [-2, 31, 4, 12]
    assert release.mechanism.scale == 3.0
    assert release.n_records is None
    one = na.interop.tumult.table(info, {"sex": ["m", "f"], "count": [4, 5]}, n_records=9)
    assert type(one.query).__name__ == "Histogram"


def test_what_cannot_be_read():
    good = {"noise_mechanism": "LAPLACE", "noise_parameter": 2.0}
    cases = {
        "EXPONENTIAL": {"noise_mechanism": NoiseMechanism.EXPONENTIAL, "noise_parameter": 1.0},
        "2 entries": [good, good],
        "0 entries": [],
        "lacks 'noise_parameter'": {"noise_mechanism": "LAPLACE"},
        "noise_parameter must be": {**good, "noise_parameter": -1.0},
    }
    for words, info in cases.items():
        with pytest.raises(ValueError, match=words):
            read(info, [3.0, 4.0], HISTOGRAM, 9)
    for info in ("LAPLACE", 3, [3]):
        with pytest.raises(TypeError, match="noise_info must"):
            read(info, [3.0, 4.0], HISTOGRAM, 9)
    with pytest.raises(ValueError, match="integers under discrete noise"):
        read({**good, "noise_mechanism": "GEOMETRIC"}, [3.5, 4.0], HISTOGRAM, 9)


def test_a_variance_taken_for_a_scale_is_caught():
    edit = Edit(na.interop.tumult, "_read", "math.sqrt(parameter) if squared else ", "")
    with planted(edit), pytest.raises(AssertionError):
        test_every_noise_is_read(NoiseMechanism.GAUSSIAN, na.mechanisms.Gaussian)
