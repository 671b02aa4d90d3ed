"""`noiseaware check`: whether a posterior can be used, in words."""

from __future__ import annotations

from noiseaware.cli import show
from noiseaware.cli.errors import CHECKS_FAILED, fail, reading


def check(posterior: show.Posterior, as_json: show.AsJson = False) -> None:
    """Say in words whether a posterior can be used: exit code 0 if so, 1 if not.

    The checks: whether the chains agree, whether there are enough effective draws, whether short
    runs from the prior found another mode, whether the model and the stated noise could have made
    the release, and, under pure differential privacy, whether every acceptance probability was at
    least exp(-epsilon).

    **Examples**

    - `noiseaware check posterior.nc`

    - `noiseaware check posterior.nc --json`
    """
    import noiseaware as na

    with reading():
        tree = na.load(posterior)
    checks = na.check(tree)
    if as_json:
        show.print_json(show.checks_as_json(checks))
    else:
        show.print_checks(checks, show.console())
    if not checks:
        fail(show.failed_sentence(checks), CHECKS_FAILED)
