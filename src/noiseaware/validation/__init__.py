"""Checks of your own model, query, mechanism, kernel or move.

`validate` passes your classes through everything that the sampler will ask of them. It says in
plain words what is wrong, and names the method and what it returned. The basic part is the contract
that `sample` checks too (`noiseaware.agreement.fit`), at many draws instead of one. The rest are
experiments, one for each claim that a class makes:

- `models`: log_prior is the density of sample_prior; sample_records and build_records draw from
  the same distribution; recover_innovations gives innovations that rebuild the records and are
  distributed as declared; log_likelihood is the density of the records, in theta and in x; the
  kernel leaves p(theta | x) invariant;
- `releases`: a statistic depends on its own record only and keeps to the stated sensitivity;
  log_density is the density of what privatize makes;
- `chains`: a move leaves a valid state, and the whole sampler leaves the joint distribution of
  (theta, x, s_dp) invariant (`noiseaware.geweke`).

All experiments but one have the same form (`compare`): draw from a known distribution, do something
that must leave it invariant, and compare the outcome with fresh draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from noiseaware.agreement.blame import blame
from noiseaware.basics.arguments import whole_number
from noiseaware.contract import Mechanism, missing, model_abilities
from noiseaware.results.checks import Checks, Verdict
from noiseaware.validation import chains, models, releases
from noiseaware.validation.case import Case

__all__ = ["validate"]

EXPERIMENTS = 10
"""The number of experiments that may fail by chance; they share the false-alarm rate."""


class Check(NamedTuple):
    """A check: its name, its function, the checks that it needs, and the members that it is about.

    The function returns what it saw, in words, or raises an error. It runs if no check that it
    needs has failed or been skipped, and if the model (or, for "moves", the user) provides what it
    is about.
    """

    name: str
    run: Callable[[Case], str]
    needs: tuple[str, ...] = ()
    about: tuple[str, ...] = ()


CLAIMS = ("log_prior", "sample_records", "recover_innovations", "log_likelihood")
CHECKS = (
    Check("model", models.attributes),
    Check("mechanism", releases.attributes),
    Check("sample_prior", models.sample_prior, ("model", "mechanism")),
    Check("log_prior", models.log_prior, ("sample_prior",), ("log_prior",)),
    Check("records", models.records, ("sample_prior",)),
    Check("sample_records", models.same_records, ("records",), ("sample_records", "build_records")),
    Check("recover_innovations", models.recovery, ("records",), ("recover_innovations",)),
    Check("log_likelihood", models.log_likelihood, ("records",), ("log_likelihood",)),
    Check("update_parameters", models.update_parameters, ("records",), ("update_parameters",)),
    Check("statistic", releases.statistic, ("records",)),
    Check("sensitivity", releases.sensitivity, ("statistic",)),
    Check("privatize", releases.privatize, ("statistic",)),
    Check("log_density", releases.log_density, ("privatize",)),
    Check("moves", chains.steps, ("log_density",), ("moves",)),
    Check("sampler", chains.sampler, (*CLAIMS, "update_parameters", "log_density", "moves")),
)


def validate(
    model: Any,
    mechanism: Any,
    *,
    n_records: int = 20,
    moves: Sequence[Any] | None = None,
    random_seed: int | None = None,
    quick: bool = False,
    false_alarm: float = 1e-6,
) -> Checks:
    """Check a model and a mechanism, your own or ready-made, before trusting a posterior.

    Parameters
    ----------
    model, mechanism
        What generates the records and what makes the release; as for `sample`.
    n_records : int
        Records in the simulated databases. A few suffice, and make the checks sharper: with many,
        log_prior hardly matters. If the model fixes the number of records, that is used.
    moves : sequence of moves, optional
        The moves to check, as for `sample`, with the kernels and proposals in them. None: those
        that `sample` would choose.
    random_seed : int, optional
        Same seed, same outcome.
    quick : bool
        Fewer simulations: finds gross errors, and takes a second or so.
    false_alarm : float
        The probability that correct classes fail by chance, over all checks together.

    Returns
    -------
    Checks
        One verdict for each method, printable; truthy only if all is well. A method has no verdict
        if one that it builds on is wrong.

    Examples
    --------
    >>> import noiseaware as na
    >>> mechanism = na.mechanisms.Laplace(na.queries.Count(), epsilon=1.0)
    >>> bool(na.validate(na.models.Bernoulli(), mechanism, random_seed=1, quick=True))
    True
    """
    n_records = model_abilities(model).n_records or whole_number("n_records", n_records)
    if not 0 < false_alarm < 1:
        raise ValueError(f"false_alarm must be between 0 and 1; got {false_alarm!r}")
    sizes = (100, 600, 3, 1000) if quick else (200, 1500, 6, 4000)
    seed = int(np.random.SeedSequence(random_seed).generate_state(1)[0])
    case = Case(model, mechanism, n_records, *sizes, false_alarm / EXPERIMENTS, seed, moves)
    present, blocked = {**vars(case.able), "moves": moves}, set[str]()
    with np.errstate(all="ignore"):
        for check in CHECKS:
            if blocked.intersection(check.needs):
                blocked.add(check.name)
            elif all(present[name] is not None for name in check.about):
                verdict = _try(check, case)
                case.verdicts.append(verdict)
                if not verdict.passed:
                    blocked.add(check.name)
    return Checks(tuple(case.verdicts))


def _try(check: Check, case: Case) -> Verdict:
    things = [case.model, case.mechanism]
    if "query" not in missing(case.mechanism, Mechanism):
        things.append(case.mechanism.query)
    if isinstance(case.moves, Sequence):
        things += case.moves
    try:
        with blame(*things):
            return Verdict(check.name, True, check.run(case))
    except Exception as error:
        # This also covers errors that no check anticipates.
        plain = isinstance(error, ValueError | TypeError)
        kind = "" if plain else f"raised {type(error).__name__}: "
        return Verdict(check.name, False, f"{kind}{error}")
