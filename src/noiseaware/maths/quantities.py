"""Quantities derived from theta, by a formula or a function: a mean, a ratio, odds.

A model may declare its own (`derived` and `derive` in `noiseaware.contract`). `with_quantities`
adds others to any model: it returns a copy that also has them, so that they appear in its
posterior, its summary, the report, plans and studies, like the model's own.

A formula is text, such as "shape / rate" or "exp(coefficients[1])". It is parsed by Python's parser
and evaluated here, node by node: numbers, parameters, their entries, + - * / **, and the functions
of `FUNCTIONS`. Anything else is an error; nothing is ever executed.
"""

from __future__ import annotations

import ast
import copy
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit, logit

from noiseaware.contract import Floats, Model, Theta, model_abilities
from noiseaware.parameters import NUMBER, Parameter

__all__ = ["FUNCTIONS", "with_quantities"]

FUNCTIONS: dict[str, Callable[[Floats], Floats]] = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "expit": expit,
    "logit": logit,
    "sum": np.sum,
    "mean": np.mean,
    "min": np.min,
    "max": np.max,
}
"""The functions that a formula may call; the last four reduce a vector to one number."""

OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


@dataclass(frozen=True)
class Formula:
    """A formula for one draw of theta."""

    text: str
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not self.text.strip():
            raise TypeError(
                f"a formula must be text, such as 'sqrt(shape) / rate'; got {self.text!r}"
            )
        if len(self.text) > 500:
            raise ValueError(f"a formula may have 500 characters; got {len(self.text)}")
        self._tree()

    def _tree(self) -> ast.expr:
        try:
            return ast.parse(self.text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError):
            raise ValueError(
                f"{self.text!r} is not a formula: numbers, parameters, + - * / **, brackets and "
                f"{', '.join(FUNCTIONS)} make one"
            ) from None

    def __call__(self, theta: Mapping[str, Any]) -> Any:
        """Return the quantity at one theta."""
        return self._value(self._tree(), theta)

    def _value(self, node: ast.expr, theta: Mapping[str, Any]) -> Any:
        number = node.value if isinstance(node, ast.Constant) else None
        if isinstance(number, int | float) and not isinstance(number, bool):
            return float(number)
        if isinstance(node, ast.Name):
            if node.id not in theta:
                known = f"the parameters are {', '.join(self.names)}"
                if node.id == NUMBER:
                    known = "the release says how many records there are: write the number"
                raise ValueError(f"unknown name {node.id!r} in {self.text!r}; {known}")
            return np.asarray(theta[node.id], dtype=np.float64)
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
            left, right = self._value(node.left, theta), self._value(node.right, theta)
            return OPERATIONS[type(node.op)](left, right)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            value = self._value(node.operand, theta)
            return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id not in FUNCTIONS or len(node.args) != 1 or node.keywords:
                raise ValueError(
                    f"unknown function {node.func.id!r} in {self.text!r}, or not of one argument; "
                    f"there are {', '.join(FUNCTIONS)}"
                )
            return FUNCTIONS[node.func.id](self._value(node.args[0], theta))
        if isinstance(node, ast.Subscript):
            return self._entry(node, theta)
        raise ValueError(
            f"{ast.unparse(node)!r} cannot stand in the formula {self.text!r}: it takes numbers, "
            f"parameters, their entries, + - * / ** and {', '.join(FUNCTIONS)}"
        )

    def _entry(self, node: ast.Subscript, theta: Mapping[str, Any]) -> Any:
        """Return an entry of a parameter: coefficients[1], table[0, 2]."""
        value = np.asarray(self._value(node.value, theta))
        inside = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        index: Any = tuple(i.value if isinstance(i, ast.Constant) else None for i in inside)
        pairs = zip(index, value.shape, strict=False)
        if len(index) > value.ndim or not all(type(i) is int and i < size for i, size in pairs):
            raise ValueError(
                f"{ast.unparse(node)} in {self.text!r} must be an entry by its number, from 0; "
                f"the shape is {value.shape}"
            )
        return value[index]


Quantity = Callable[[Mapping[str, Any]], Any]


def with_quantities(model: Model, derived: Mapping[str, str | Quantity]) -> Any:
    """Return a copy of a model with additional quantities derived from its parameters.

    Parameters
    ----------
    model
        Any model.
    derived : mapping
        For each name, a formula such as ``"sqrt(shape) / rate"``, or a function of one theta (a
        dict of arrays of the declared shapes) that returns a number or an array. If the number of
        records is unknown, theta includes it as ``n_records``.

    Returns
    -------
    model
        The same model, with these among its derived quantities. Its `to_dict` includes formulas;
        functions cannot be written.

    Examples
    --------
    >>> import noiseaware as na
    >>> model = na.models.derived(na.models.Gamma(), {"sd": "sqrt(shape) / rate"})
    >>> [parameter.name for parameter in model.derived]
    ['mean', 'sd']
    """
    if not isinstance(derived, Mapping):
        raise TypeError(
            "derived must be a dict from names to formulas or functions, such as "
            f'{{"sd": "sqrt(shape) / rate"}}; got {derived!r}'
        )
    able = model_abilities(model)
    taken = {parameter.name for parameter in able.shown}
    functions: dict[str, Quantity] = {}
    for name, given in derived.items():
        if name in taken:
            raise ValueError(f"derived must have new names; {able.name} has {name!r} already")
        if callable(given):
            functions[name] = given
        else:
            functions[name] = Formula(given, tuple(p.name for p in able.parameters))
    theta = {**model.sample_prior(np.random.default_rng(0)), NUMBER: np.asarray(1.0)}
    more = tuple(_declared(name, f, theta, able.parameters) for name, f in functions.items())
    made = copy.copy(model)
    texts = {name: given for name, given in derived.items() if isinstance(given, str)}
    changes: dict[str, Any] = {
        "derived": (*able.derived, *more),
        "derive": partial(_derive, able.derive if able.derived else None, functions, model),
    }
    if able.to_dict is not None:
        changes["to_dict"] = partial(_to_dict, able.to_dict, texts)
    vars(made).update(changes)
    return made


def _declared(
    name: str, function: Quantity, theta: Theta, parameters: Sequence[Parameter]
) -> Parameter:
    """Return the quantity as a parameter, labelled like one of the model's of its shape, if any."""
    try:
        shape = np.shape(np.asarray(function(theta), dtype=np.float64))
    except (TypeError, KeyError, IndexError) as error:
        raise ValueError(f"derived {name!r} cannot be computed: {error!r}") from None
    for parameter in parameters:
        if parameter.shape == shape and parameter.dims:
            return Parameter(name, shape, "real", parameter.dims, parameter.coords)
    return Parameter(name, shape)


def _derive(
    own: Callable[[Any], Mapping[str, Any]] | None,
    functions: Mapping[str, Quantity],
    model: Model,
    theta: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the model's own derived quantities and the added ones, for every draw."""
    made = {} if own is None else dict(own(theta))
    first = model.parameters[0]
    array = np.asarray(theta[first.name])
    lead = array.shape[: array.ndim - len(first.shape)]
    with np.errstate(all="ignore"):
        for name, function in functions.items():
            thetas = ({key: x[at] for key, x in theta.items()} for at in np.ndindex(*lead))
            values = [np.asarray(function(each), dtype=np.float64) for each in thetas]
            made[name] = np.reshape(values, (*lead, *values[0].shape))
    return made


def _to_dict(own: Callable[[], dict[str, Any]], texts: Mapping[str, str]) -> dict[str, Any]:
    written = own()
    if texts:
        written["derived"] = {**written.get("derived", {}), **texts}
    return written
