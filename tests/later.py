"""Which cases of a check run in `make test`, and which in `make validate` only."""

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest


def only(quick: Collection[Any], cases: Iterable[Any]) -> list[Any]:
    """Return the cases for `parametrize`, those that are not in `quick` marked `full`."""
    cases = list(cases)
    unknown = [case for case in quick if case not in cases]
    assert not unknown, f"no such case: {unknown}"
    return [_param(case, () if case in quick else pytest.mark.full) for case in cases]


def all_but(later: Collection[Any], cases: Iterable[Any]) -> list[Any]:
    """Return the cases for `parametrize`, those in `later` marked `full`."""
    cases = list(cases)
    unknown = [case for case in later if case not in cases]
    assert not unknown, f"no such case: {unknown}"
    return [_param(case, pytest.mark.full if case in later else ()) for case in cases]


def first_of_each(
    family: Callable[[Any], Any], cases: Iterable[Any], later: Collection[Any] = ()
) -> list[Any]:
    """Return the cases for `parametrize`, all marked `full` but the first of each family.

    Families in `later` are marked `full` altogether.
    """
    cases = list(cases)
    first = {family(case): case for case in reversed(cases)}
    unknown = [name for name in later if name not in first]
    assert not unknown, f"no such family: {unknown}"
    return only([case for name, case in first.items() if name not in later], cases)


def _param(case: Any, marks: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=marks)
