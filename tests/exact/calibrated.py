"""Geweke's test and SBC at the size that suits a few records; an exact sampler fails 1 in 10^6."""

import noiseaware as na

GEWEKE = {"n_records": 8, "replicates": 300, "rounds": 5, "false_alarm": 1e-6}
SBC = {
    "n_records": 8,
    "replicates": 60,
    "ranks": 9,
    "draws": 90,
    "warmup": 70,
    "false_alarm": 1e-6,
}


def check_geweke(model, mechanism, seed, sampler="default", **given):
    """Raise AssertionError unless the sampler, "default" or "algorithm1", passes."""
    moves = na.moves.algorithm1() if sampler == "algorithm1" else None
    options = {"moves": moves, "random_seed": seed, **GEWEKE, **given}
    result = na.geweke(model, mechanism, **options)
    assert result, str(result)


def check_sbc(model, mechanism, seed, **given):
    """Raise AssertionError unless the default sampler passes."""
    result = na.sbc(model, mechanism, **{"random_seed": seed, **SBC, **given})
    assert result, str(result)
