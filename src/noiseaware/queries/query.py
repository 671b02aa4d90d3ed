"""Any vectorised function of the records, as a query."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import function_name
from noiseaware.basics.described import Described
from noiseaware.basics.frames import as_array
from noiseaware.contract import Floats, Neighbours
from noiseaware.queries.arguments import check_norm


class Query(Described):
    """A query made from a function, the names of its results and its sensitivity.

    noiseaware cannot verify a sensitivity, and a privacy guarantee is no better than the
    sensitivity behind it: clamp unbounded numbers inside the function, and claim only what you can
    prove.

    Parameters
    ----------
    function
        Takes n records along the first axis and returns the statistics t(x_i), (n, d), or (n,) for
        d = 1. Row i must depend on record i only.
    names
        The names of the d coordinates.
    sensitivity
        How far one record can move the total: a number for the l1 norm, or numbers for several
        norms, as in `{1: 2.0, 2: 1.5}`.
    integer_valued
        Whether the function returns integers only, so that discrete noise can be added.
    neighbours
        The neighbour relation of `sensitivity`: `"change"` or `"add-remove"`.

    Examples
    --------
    >>> query = Query(np.tanh, names=["tanh"], sensitivity=2.0)
    >>> query.statistic(np.array([0.0, 100.0]))
    array([[0.],
           [1.]])
    """

    function: Callable[[Any], Any]
    names: tuple[str, ...]
    sensitivities: tuple[tuple[float, float], ...]
    integer_valued: bool
    neighbours: Neighbours

    def __init__(
        self,
        function: Callable[[Any], Any],
        names: Sequence[str],
        sensitivity: float | Mapping[float, float],
        integer_valued: bool = False,
        *,
        neighbours: Neighbours = "change",
    ) -> None:
        if not callable(function):
            raise TypeError(f"function must be a function of the records; got {function!r}")
        if isinstance(names, str):
            raise TypeError(f"names must be a list of names; got the text {names!r}")
        names = tuple(names)
        if not names or not all(isinstance(name, str) and name for name in names):
            raise ValueError(f"names must be texts, at least one; got {names!r}")
        if len(set(names)) != len(names):
            raise ValueError(f"names must be different; got {names!r}")
        by_norm: dict[float, float] = {1: sensitivity}  # type: ignore[dict-item]
        if isinstance(sensitivity, Mapping):
            by_norm = dict(sensitivity)
        if not by_norm:
            raise ValueError("sensitivity must be given for at least one norm; got none")
        for norm, value in by_norm.items():
            check_norm(norm, neighbours)
            try:
                by_norm[norm] = float(value)
            except (TypeError, ValueError):
                raise TypeError(f"sensitivity must be a number; got {value!r}") from None
            if not 0 < by_norm[norm] < math.inf:
                raise ValueError(f"sensitivity must be positive and finite; got {value!r}")
        self._hold(
            function=function,
            names=names,
            sensitivities=tuple(sorted(by_norm.items())),
            integer_valued=bool(integer_valued),
            neighbours=neighbours,
        )

    def _must_return(self, right: str, got: str) -> ValueError:
        return ValueError(f"function {function_name(self.function)} must return {right}; got {got}")

    def statistic(self, records: ArrayLike) -> Floats:
        """Return the function's result for each record, (n, d), checked."""
        records = as_array(records) if type(records) is not np.ndarray else records
        n, d = len(records), len(self.names)
        result = np.asarray(self.function(records))
        if result.dtype.kind not in "fiub":
            raise self._must_return("real numbers", f"dtype {result.dtype}")
        # Copied, as the function may have returned a view of the records, which change later.
        rows = np.array(result, dtype=np.float64, order="C")
        if d == 1 and rows.shape == (n,):
            rows = rows.reshape(n, 1)
        if rows.shape != (n, d):
            right = f"shape {(n, d)} for {n} records and {d} name(s)"
            raise self._must_return(right, f"shape {rows.shape}")
        if not np.isfinite(rows).all():
            raise self._must_return("finite numbers", self._first(rows, ~np.isfinite(rows)))
        return rows

    def _first(self, rows: Floats, bad: NDArray[np.bool_]) -> str:
        i, j = np.argwhere(bad)[0]
        return f"{rows[i, j]} for record {i}, {self.names[j]!r}"

    def sensitivity(self, norm: float = 1, neighbours: Neighbours = "change") -> float:
        """Return the given sensitivity; ValueError if none was given for these arguments."""
        check_norm(norm, neighbours)
        if neighbours != self.neighbours:
            raise ValueError(
                f'the sensitivity of this Query was given for neighbours="{self.neighbours}"; '
                f'got a question about neighbours="{neighbours}"'
            )
        given = dict(self.sensitivities)
        if norm not in given:
            known = ", ".join(f"{known:g}" for known in given)
            raise ValueError(
                f"the sensitivity of this Query was given for norm {known} only, and norm "
                f"{norm:g} is needed: pass sensitivity={{{norm:g}: ...}} as well"
            )
        return given[norm]

    def check_records(self, records: ArrayLike) -> None:
        """Raise an error unless the function accepts the records and its result is valid."""
        rows = self.statistic(records)
        bad = rows != np.floor(rows)
        if self.integer_valued and bad.any():
            right = "whole numbers, because integer_valued=True"
            raise self._must_return(right, self._first(rows, bad))

    def _arguments(self) -> dict[str, Any]:
        return {
            "function": self.function,
            "names": self.names,
            "sensitivity": self.sensitivities,
            "integer_valued": self.integer_valued,
            "neighbours": self.neighbours,
        }

    def to_dict(self) -> dict[str, Any]:
        """Raise ValueError: a file holds no functions."""
        raise ValueError(
            f"a Query made from a function ({function_name(self.function)}) cannot be written to a "
            "file: a file holds no functions"
        )

    def words(self) -> list[str]:
        return [f"The totals of {', '.join(self.names)}, by a function of the analyst's own."]
