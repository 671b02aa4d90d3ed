"""Plant a bug in the package for the length of a `with` block.

A bug is one or more edits of the source: in this function, this text becomes that text. The edited
function is compiled as plain Python in the namespace of its module and put where the module or the
class had it, so that the callers find it; decorators are dropped. A compiled kernel is therefore
replaced by uncompiled Python and nothing reaches numba's cache on disk.

Compiled code has its callees built in: an edited callee is seen by Python callers only. To edit a
kernel that another kernel calls, add an edit of the caller that changes nothing (`same`).
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock


@dataclass(frozen=True)
class Edit:
    """In `function` of a module or class, `old` becomes `new`."""

    owner: Any
    function: str
    old: str
    new: str


def same(owner: Any, function: str) -> Edit:
    """Run a kernel as plain Python, as it is."""
    return Edit(owner, function, "", "")


def _edited(edit: Edit) -> Any:
    original = inspect.getattr_static(edit.owner, edit.function)
    function = getattr(original, "py_func", original)
    if isinstance(function, staticmethod):
        function = function.__func__
    source = inspect.getsource(function)
    if edit.old:
        assert source.count(edit.old) == 1, (
            f"{edit.function} must hold {edit.old!r} once; it does {source.count(edit.old)} times"
        )
        source = source.replace(edit.old, edit.new)
    tree = ast.parse(textwrap.dedent(source))
    tree.body[0].decorator_list = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):  # annotations may name what is imported for typing
            node.returns = None
            for argument in (*node.args.args, *node.args.kwonlyargs):
                argument.annotation = None
    made: dict[str, Any] = {}
    code = compile(tree, f"<{edit.function}, edited>", "exec")
    # In the module's own namespace, so that several edits see one another.
    exec(code, function.__globals__, made)
    return made[edit.function]


@contextmanager
def planted(*edits: Edit) -> Iterator[None]:
    """Run the block with the edits in place, and take them away after it."""
    with ExitStack() as stack:
        for edit in edits:
            stack.enter_context(mock.patch.object(edit.owner, edit.function, _edited(edit)))
        yield
