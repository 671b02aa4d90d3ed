"""Arrays whose references compiled code does not count.

A compiled function counts a reference to each array that it is handed, alone or in a tuple, and
gives it back at its end: two atomic operations, some 10 ns. A loop whose steps take less than a
microsecond, and hand thirty arrays from function to function, spends most of its time so.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload


def borrowed(value: Any) -> Any:
    """Return an array, or a tuple of anything, with arrays whose references are not counted.

    For what a function that Python calls was handed: their owners wait for it to return. What a
    compiled function allocates itself would be gone. And for what is read, or written to by
    functions that are called: where numba inlines, it takes these arrays for new ones that nobody
    will look at, and leaves out `array[i] = x`.
    """
    return value


def _forget(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return a compiled value with the owners of its arrays set to null: nobody counts these."""
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        return array._getvalue()
    parts: Any = kind if isinstance(kind, types.BaseTuple) else ()
    for place, part in enumerate(parts):
        inner = _forget(context, builder, part, builder.extract_value(value, place))
        value = builder.insert_value(value, inner, place)
    return value


@intrinsic
def _without_owner(typing_context, value):
    def generate(context, builder, signature, arguments):
        return _forget(context, builder, signature.return_type, arguments[0])

    return value(value), generate


@overload(borrowed)
def _compiled_borrowed(value):
    return lambda value: _without_owner(value)  # type: ignore[call-arg]
