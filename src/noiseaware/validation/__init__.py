"""Checks of a model, a query, a mechanism, a kernel or a move of one's own.

`validate` sends a user's classes through everything that the sampler will ask of them, says in
plain words what is wrong, and names the method and what it returned. The plain part is the
contract that `sample` checks too (`noiseaware.sampler.fit`), at many draws instead of one.
The rest are experiments, one for each claim that a class makes:

- `models`: log_prior is the density of sample_prior; sample_records and build_records draw from
  the same distribution; recover_innovations gives the records back, from innovations that are
  distributed as declared; log_likelihood is the density of the records, in theta and in x; the
  kernel leaves p(theta | x) alone;
- `releases`: a statistic depends on its own record only and keeps to the stated sensitivity;
  log_density is the density of what privatize makes;
- `moves`: a move gives back a state that it may give back, and the whole sampler leaves the joint
  distribution of (theta, x, s_dp) alone (`noiseaware.geweke`).

All experiments but one have the same shape (`compare`): draw from a distribution that is known,
do something that must leave it alone, and compare the outcome with fresh draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from noiseaware.arguments import whole_number
from noiseaware.checks import Checks, Verdict
from noiseaware.sampler.blame import blame
from noiseaware.validation import models, moves, releases
from noiseaware.validation.compare import EXPERIMENTS, Setting

__all__ = ["validate"]


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
    """Check a model and a mechanism, of one's own or ready ones, before trusting a posterior.

    Parameters
    ----------
    model, mechanism
        What makes the records and what makes the release; as for `sample`.
    n_records : int
        Records in the databases that are simulated. Few are enough, and sharpen the checks: with
        many, log_prior hardly matters. A model that knows its number of records has it used.
    moves : sequence of moves, optional
        The moves that will be used, as for `sample`; kernels and proposals in them are checked
        too. None: those that `sample` would pick.
    random_seed : int, optional
        Same seed, same outcome.
    quick : bool
        Fewer simulations: finds what is far off, and takes a second or so.
    false_alarm : float
        The probability with which classes that are right fail by chance, all checks together.

    Returns
    -------
    Checks
        One verdict for each method, printable; true in a condition only if all is well. A method
        that cannot be checked because one that it builds on is wrong has no verdict.

    Examples
    --------
    >>> import noiseaware as na
    >>> mechanism = na.mechanisms.Laplace(na.queries.Count(), epsilon=1.0)
    >>> bool(na.validate(na.models.Bernoulli(), mechanism, random_seed=1, quick=True))
    True
    """
    n_records = getattr(model, "n_records", None) or whole_number("n_records", n_records)
    if not 0 < false_alarm < 1:
        raise ValueError(f"false_alarm must be between 0 and 1; got {false_alarm!r}")
    setting = Setting.make(n_records, quick, false_alarm / EXPERIMENTS, random_seed)
    return _Validation(model, mechanism, setting, moves).run()


class _Validation:
    """The checks in their order; one that fails keeps those from running that stand on it."""

    def __init__(self, model: Any, mechanism: Any, setting: Setting, own: Any) -> None:
        self.model = model
        self.mechanism = mechanism
        self.setting = setting
        self.own_moves = own
        self.verdicts: list[Verdict] = []

    def run(self) -> Checks:
        """Run all that can be run."""
        with np.errstate(all="ignore"):
            if self._attributes():
                self._methods()
        return Checks(tuple(self.verdicts))

    def _attributes(self) -> bool:
        model, mechanism = self.model, self.mechanism
        return self._try("model", models.attributes, model) & self._try(
            "mechanism", releases.attributes, mechanism
        )

    def _methods(self) -> None:
        model, mechanism, setting = self.model, self.mechanism, self.setting
        if not self._try("sample_prior", models.sample_prior, model, setting):
            return
        prior = not hasattr(model, "log_prior") or self._try(
            "log_prior", models.log_prior, model, setting
        )
        if not self._try("records", models.records, model, mechanism.query, setting):
            return
        fits = True
        if len(models.makers(model)) == 2:
            fits &= self._try("sample_records", models.same_records, model, setting)
        if hasattr(model, "recover_innovations"):
            fits &= self._try("recover_innovations", models.recover_innovations, model, setting)
        if hasattr(model, "log_likelihood"):
            fits &= self._try("log_likelihood", models.log_likelihood, model, prior, setting)
        if hasattr(model, "update_parameters"):
            fits &= self._try("update_parameters", models.update_parameters, model, setting)
        statistic = self._try("statistic", releases.statistic, model, mechanism, setting)
        if statistic:
            self._try("sensitivity", releases.sensitivity, model, mechanism, setting)
        release = statistic and self._try(
            "privatize", releases.privatize, model, mechanism, setting
        )
        release = release and self._try(
            "log_density", releases.log_density, model, mechanism, setting
        )
        if self.own_moves is not None and release:
            fits &= self._try("moves", moves.steps, model, mechanism, self.own_moves, setting)
        if prior and fits and release:
            self._try("sampler", moves.sampler, model, mechanism, self.own_moves, setting)

    def _try(self, name: str, check: Callable[..., str], *arguments: Any) -> bool:
        """Run one check: it returns what it saw in words, or raises what is wrong."""
        own = self.own_moves if isinstance(self.own_moves, Sequence) else ()
        things = (self.model, self.mechanism, getattr(self.mechanism, "query", None), *own)
        try:
            with blame(*things):
                words = check(*arguments)
        except Exception as error:
            # Also what a class does that no check thought of: the words are for its author.
            plain = isinstance(error, ValueError | TypeError)
            kind = "" if plain else f"raised {type(error).__name__}: "
            self.verdicts.append(Verdict(name, False, f"{kind}{error}"))
            return False
        self.verdicts.append(Verdict(name, True, words))
        return True
