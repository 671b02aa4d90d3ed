"""The state of a chain as arrays and JSON, and back, so that reading a checkpoint runs no code.

Numbers, text, arrays, and lists, tuples and dictionaries of these are written directly. For an
object, only what it has `learned` is written (`contract.HeldAbilities`). On reading, the chain is
started again, which constructs all objects, and what was learned is put into them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from noiseaware.contract import held_abilities
from noiseaware.sampler.state import ChainState

NARROW = 4096
"""Integer arrays of at least this size are written in the smallest type that fits."""

FEW = 8
"""Longer lists of arrays of one shape, such as a history, are written as one array."""

NUMBERS = "biuf"
"""Kinds of arrays that can be written: booleans, integers and floats."""

Arrays = dict[str, np.ndarray]


def pack(value: Any, arrays: Arrays, where: str) -> Any:
    """Return JSON for a value and add its arrays to `arrays`; `where` names it in messages."""
    if value is None or isinstance(value, bool | int | float | str):
        return value if type(value) in _PLAIN else {"scalar": _add(np.asarray(value), arrays)}
    if isinstance(value, np.generic) and value.dtype.kind in NUMBERS:
        return {"scalar": _add(np.asarray(value), arrays)}
    if isinstance(value, np.ndarray) and value.dtype.kind in NUMBERS:
        stored = _narrowed(value)
        packed = {"array": _add(stored, arrays)}
        return packed if stored is value else {**packed, "dtype": value.dtype.str}
    if isinstance(value, np.random.Generator):
        return {"generator": pack(value.bit_generator.state, arrays, where)}
    if type(value) is dict:
        return {"dict": [[key, pack(x, arrays, f"{where}[{key!r}]")] for key, x in value.items()]}
    if type(value) is list and len(value) > FEW and _are_rows(value):
        return {"rows": _add(np.stack(value), arrays)}
    if type(value) in (list, tuple):
        entries = [pack(x, arrays, f"{where}[{i}]") for i, x in enumerate(value)]
        return entries if type(value) is list else {"tuple": entries}
    can = held_abilities(value)
    names = can.learned if can._fields is None else can._fields
    if names is None:
        raise TypeError(
            f"checkpoint cannot hold {where}, {type(value).__name__}: a move keeps plain numbers "
            "and arrays in its tuning, or objects that name what they have `learned`"
        )
    return {"object": {n: pack(getattr(value, n), arrays, f"{where}.{n}") for n in names}}


def unpack(packed: Any, arrays: Arrays, made: Any) -> Any:
    """Return what was packed; `made` is its counterpart in a newly started chain."""
    if isinstance(packed, list):
        return _entries(packed, arrays, made if type(made) is list else [])
    if not isinstance(packed, dict):
        return packed
    kind, content = next(iter(packed.items()))
    if kind == "array":
        return arrays[content].astype(packed.get("dtype", arrays[content].dtype), copy=False)
    if kind == "scalar":
        return arrays[content][()]
    if kind == "rows":
        return [row.copy() for row in arrays[content]]
    if kind == "tuple":
        return tuple(_entries(content, arrays, made if type(made) is tuple else ()))
    if kind == "dict":
        others: dict[Any, Any] = made if type(made) is dict else {}
        return {key: unpack(x, arrays, others.get(key)) for key, x in content}
    if kind == "generator":
        made.bit_generator.state = unpack(content, arrays, None)
        return made
    can = held_abilities(made)
    names = can.learned if can._fields is None else can._fields
    if kind != "object" or names is None or set(content) != set(names):
        raise ValueError(f"there is no place for {sorted(content)} in {type(made).__name__}")
    parts = {name: unpack(content[name], arrays, getattr(made, name)) for name in names}
    if can._fields is not None:
        return type(made)(**parts)
    for name, part in parts.items():
        setattr(made, name, part)
    return made


def pack_state(state: ChainState, arrays: Arrays) -> Any:
    """Return JSON for the state of a chain and add its arrays to `arrays`."""
    return {
        field.name: pack(getattr(state, field.name), arrays, f"the chain's {field.name}")
        for field in dataclasses.fields(state)
    }


def unpack_state(packed: Any, arrays: Arrays, made: ChainState) -> ChainState:
    """Put a written state into a newly started one, and return that."""
    shapes = {name: np.shape(x) for name, x in made.theta.items()}
    for field in dataclasses.fields(made):
        now = getattr(made, field.name)
        value = unpack(packed[field.name], arrays, now)
        if type(value) is not type(now):
            raise ValueError(f"{field.name} is {type(value).__name__}, not {type(now).__name__}")
        if isinstance(value, np.ndarray) and _kind(value) != _kind(now):
            raise ValueError(f"{field.name} is {_kind(value)}, not {_kind(now)}")
        setattr(made, field.name, value)
    if {name: np.shape(x) for name, x in made.theta.items()} != shapes:
        raise ValueError("theta has other names or shapes")
    return made


_PLAIN = (type(None), bool, int, float, str)


def _entries(packed: list[Any], arrays: Arrays, made: Any) -> list[Any]:
    same = len(made) == len(packed)
    return [unpack(x, arrays, made[i] if same else None) for i, x in enumerate(packed)]


def _add(array: np.ndarray, arrays: Arrays) -> str:
    name = str(len(arrays))
    arrays[name] = array
    return name


def _narrowed(array: np.ndarray) -> np.ndarray:
    """Return a large integer array in the smallest type that holds its values."""
    if array.dtype.kind not in "iu" or array.size < NARROW:
        return array
    dtype = np.result_type(np.min_scalar_type(array.min()), np.min_scalar_type(array.max()))
    return array.astype(dtype) if dtype.itemsize < array.dtype.itemsize else array


def _are_rows(values: list[Any]) -> bool:
    if not all(isinstance(x, np.ndarray) and x.dtype.kind in NUMBERS for x in values):
        return False
    return len({(x.dtype.str, x.shape) for x in values}) == 1


def _kind(array: np.ndarray) -> tuple[str, tuple[int, ...]]:
    return array.dtype.str, array.shape[1:]
