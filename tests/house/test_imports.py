"""The rules of the house, read from the source: each one a test, each shown to see a violation.

A rule is a function from {module: source text} to a list of lines that say who breaks it and how.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "noiseaware"

LAYERS = (
    # What everything may use.
    (
        "_cache_folder",
        "_version",
        "basics.arguments",
        "basics.compiled",
        "basics.deprecated",
        "parameters",
    ),
    ("contract", "registry"),
    ("basics", "maths.coordinates", "maths.quantities"),
    ("sizes",),
    # The way of the data.
    ("queries",),
    ("release",),
    ("mechanisms",),
    ("maths",),
    ("models",),
    ("agreement",),
    ("counts", "kernels", "sampler"),
    ("running",),
    ("scrutiny",),
    ("results",),
    ("evidence", "maximum", "sampling"),
    ("interop",),
    ("calibration", "estimators"),
    ("baselines", "validation"),
    ("documents", "studies"),
    ("cell_plots", "plots"),
    ("report",),
    ("plan",),
    ("comparators",),  # the old name of baselines
    ("",),  # the package itself, `noiseaware/__init__.py`
    ("cli", "__main__"),
)
"""From the bottom to the top: a module imports from its own layer and from those below it."""

NEVER = (
    ("agreement", "models"),
    ("counts", "models"),
    ("sampler", "models"),
    ("running", "models"),
    ("scrutiny", "models"),
    ("kernels", "models"),
    ("models", "queries"),
)
"""(who, what): imports that would tie two kinds of things together, whatever their layers."""

VALUES = {
    "Guarantee": "what a mechanism promises",
    "Innovations": "how u is distributed, declared by a model",
    "Parameter": "declared by a model",
    "Release": "what `sample` is given",
    "SeparableDensity": "what the `terms` of a mechanism returns",
}
"""Classes that a user hands over as values: a wrong argument has to be told from a right one."""

FOREIGN = {
    "basics.arguments": "functions of the user's, which may have no name",
    "contract": "the one place that looks",
    "registry": "classes of the package: whether one reads its own description",
    "basics.frames": "pandas and polars",
    "plots": "Matplotlib's axes",
    "agreement.blame": "code objects of Python and numba",
    "interop": "objects of other libraries",
    "kernels.blackjax": "objects of BlackJAX",
    "cli": "objects of typer and click",
}
"""Modules, with all below them, that look at objects which the contract does not describe."""

LONGEST, MOST_ARGUMENTS = 60, 12


# ------------------------------------------------------------------ reading


parse = functools.cache(ast.parse)


def package() -> dict[str, str]:
    """Return the text of each module; "queries.sum" is src/noiseaware/queries/sum.py."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = path.read_text(encoding="utf-8")
    return found


def below(module: str, prefix: str) -> bool:
    """Whether a module is the one called `prefix`, or inside it."""
    return module == prefix or (prefix != "" and module.startswith(f"{prefix}."))


def imports(tree: ast.AST, modules: set[str]) -> list[tuple[int, str]]:
    """Return (line, module) for each import of a module of the package, wherever it stands."""
    return list(dict.fromkeys(_imports(tree, modules)))


def _imports(tree: ast.AST, modules: set[str]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                if below(name.name, "noiseaware"):
                    yield node.lineno, name.name.removeprefix("noiseaware").lstrip(".")
        elif isinstance(node, ast.ImportFrom) and below(node.module or "", "noiseaware"):
            source = (node.module or "").removeprefix("noiseaware").lstrip(".")
            for name in node.names:
                inside = f"{source}.{name.name}".lstrip(".")
                yield node.lineno, inside if inside in modules else source


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function and method."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def calls(tree: ast.AST, *names: str) -> Iterator[ast.Call]:
    """Yield the calls of these functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            yield node


# ------------------------------------------------------------------ the rules


def against_the_arrow(sources: dict[str, str]) -> list[str]:
    """Find imports from a higher layer."""
    placed = [(prefix, number) for number, layer in enumerate(LAYERS) for prefix in layer]
    placed.sort(key=lambda place: len(place[0]))  # the longest prefix, which is last, decides
    place = {
        module: number for module in sources for prefix, number in placed if below(module, prefix)
    }
    found = [f"{module} stands in no layer" for module in sources if module not in place]
    for module, text in sources.items():
        for line, target in imports(parse(text), set(sources)):
            if place.get(target, 0) > place.get(module, len(LAYERS)):
                found.append(f"{module}:{line} imports noiseaware.{target}".rstrip("."))
    return found


def inside_functions(sources: dict[str, str]) -> list[str]:
    """Find imports of the package inside functions; a command may, so that `--help` is quick."""
    return [
        f"{module}:{line} imports noiseaware.{target} inside {function.name}"
        for module, text in sources.items()
        if not below(module, "cli")
        for function in functions(parse(text))
        for line, target in imports(function, set(sources))
    ]


def forbidden_pairs(sources: dict[str, str]) -> list[str]:
    """Find imports that `NEVER` rules out."""
    return [
        f"{module}:{line} imports noiseaware.{target}"
        for module, text in sources.items()
        for line, target in imports(parse(text), set(sources))
        if any(below(module, who) and below(target, what) for who, what in NEVER)
    ]


def cycles(sources: dict[str, str]) -> list[str]:
    """Find modules that import one another, directly or by way of others.

    A package's `__init__` imports what is inside it, so what is inside must not import it.
    """
    edges = {
        module: {target for _, target in imports(parse(text), set(sources)) if target in sources}
        for module, text in sources.items()
    }
    done: set[str] = set()
    found: list[str] = []

    def visit(module: str, way: list[str]) -> None:
        if module in way:
            found.append(" -> ".join([*way[way.index(module) :], module]))
        elif module not in done:
            for target in sorted(edges[module] - {module}):
                visit(target, [*way, module])
            done.add(module)

    for module in sources:
        visit(module, [])
    return found


def concrete_classes(sources: dict[str, str]) -> list[str]:
    """Find isinstance, and `type(x) is`, with a class that another file defines."""
    trees = {module: parse(text) for module, text in sources.items()}
    defined = {
        module: {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
        for module, tree in trees.items()
    }
    everywhere = set().union(*defined.values()) - set(VALUES)
    found = []
    for module, tree in trees.items():
        imported = {
            (name.asname or name.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and below(node.module or "", "noiseaware")
            for name in node.names
        }
        tuples = {
            target.id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        asked = [(call.lineno, call.args[-1]) for call in calls(tree, "isinstance")]
        asked = [(line, tuples.get(x.id, x) if isinstance(x, ast.Name) else x) for line, x in asked]
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare) and list(calls(node.left, "type")):
                asked += [(node.lineno, side) for side in node.comparators]
        for line, classes in asked:
            for part in ast.walk(classes):
                named = isinstance(part, ast.Name) and part.id in imported and part.id in everywhere
                inside = (
                    isinstance(part, ast.Attribute)
                    and isinstance(part.value, ast.Name)
                    and part.value.id in imported
                    and part.attr in everywhere
                )
                if named or inside:
                    found.append(f"{module}:{line} asks for the class {ast.unparse(part)}")
    return found


def probes(sources: dict[str, str]) -> list[str]:
    """Find hasattr, and getattr with a default, where the contract would have the answer."""
    return [
        f"{module}:{call.lineno} has {ast.unparse(call)[:70]}"
        for module, text in sources.items()
        if not any(below(module, prefix) for prefix in FOREIGN)
        for call in calls(parse(text), "hasattr", "getattr")
        if len(call.args) == 3 or ast.unparse(call.func) == "hasattr"
    ]


def long_functions(sources: dict[str, str]) -> list[str]:
    """Find functions with a body above `LONGEST` lines, or too many positional arguments."""
    found = []
    for module, text in sources.items():
        for function in functions(parse(text)):
            body = function.body[ast.get_docstring(function) is not None :]
            lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
            if lines > LONGEST:
                found.append(f"{module}.{function.name} has {lines} lines")
            given = [*function.args.posonlyargs, *function.args.args]
            count = len([argument for argument in given if argument.arg not in ("self", "cls")])
            if count > MOST_ARGUMENTS:
                found.append(f"{module}.{function.name} takes {count} positional arguments")
    return found


# ------------------------------------------------------------------ the house keeps them

RULES: dict[str, Callable[[dict[str, str]], list[str]]] = {
    rule.__name__: rule
    for rule in (
        against_the_arrow,
        inside_functions,
        forbidden_pairs,
        cycles,
        concrete_classes,
        probes,
        long_functions,
    )
}


@pytest.mark.parametrize("name", RULES)
def test_the_house_keeps_the_rule(name):
    broken = RULES[name](package())
    assert not broken, "\n".join([f"{len(broken)} violations", *broken])


def test_every_name_in_the_lists_is_there():
    """A list that names what has gone would allow it to come back."""
    modules = package()
    for prefix in (
        *(p for layer in LAYERS for p in layer),
        *FOREIGN,
        *(n for p in NEVER for n in p),
    ):
        assert any(below(module, prefix) for module in modules), prefix
    classes = {
        node.name
        for text in modules.values()
        for node in parse(text).body
        if isinstance(node, ast.ClassDef)
    }
    assert set(VALUES) <= classes


# ------------------------------------------------------------------ and a violation is seen

HOUSE = {
    "": "from noiseaware.models.coin import Coin",
    "contract": "def can(thing):\n    return hasattr(thing, 'sample_records')",
    "release": "class Release: ...",
    "queries.count": "class Count: ...",
    "models.coin": "from noiseaware import contract\nclass Coin: ...",
    "running.run": "from noiseaware.release import Release\n"
    "def run(x):\n    return isinstance(x, Release) and getattr(x, 'values')",
    "cli.fit": "def fit():\n    from noiseaware.models import coin",
}

PLANTED = {
    "an import from above": ("against_the_arrow", "models.coin", "import noiseaware.running.run"),
    "one for types only": (
        "against_the_arrow",
        "release",
        "if TYPE_CHECKING:\n    from noiseaware.models.coin import Coin",
    ),
    "one of the package itself": ("against_the_arrow", "running.run", "import noiseaware"),
    "a module without a place": ("against_the_arrow", "attic", "x = 1"),
    "an import inside a function": (
        "inside_functions",
        "running.run",
        "def run():\n    from noiseaware import contract",
    ),
    "one inside a method": (
        "inside_functions",
        "models.coin",
        "class Coin:\n    def step(self):\n        import noiseaware.contract",
    ),
    "the sampler knows a model": (
        "forbidden_pairs",
        "running.run",
        "from noiseaware.models.coin import Coin",
    ),
    "a model knows a query": (
        "forbidden_pairs",
        "models.coin",
        "from noiseaware.queries import count",
    ),
    "two modules import each other": (
        "cycles",
        "contract",
        "from noiseaware.models.coin import Coin",
    ),
    "isinstance": (
        "concrete_classes",
        "running.run",
        "from noiseaware.models.coin import Coin\nisinstance(1, int | Coin)",
    ),
    "isinstance by way of the module": (
        "concrete_classes",
        "running.run",
        "from noiseaware.models import coin\nisinstance(1, (int, coin.Coin))",
    ),
    "isinstance by way of a tuple": (
        "concrete_classes",
        "running.run",
        "from noiseaware.models.coin import Coin\nCOINS = (int, Coin)\nisinstance(1, COINS)",
    ),
    "type(x) is": (
        "concrete_classes",
        "running.run",
        "from noiseaware.queries.count import Count\ntype(1) is Count",
    ),
    "hasattr": ("probes", "running.run", "def f(model):\n    return hasattr(model, 'kernel')"),
    "getattr": ("probes", "models.coin", "getattr(3, 'kernel', None)"),
    "a long function": ("long_functions", "contract", "def f():\n" + "    x = 1\n" * 61),
    "many arguments": (
        "long_functions",
        "contract",
        f"def f({', '.join(f'a{i}' for i in range(13))}): ...",
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_a_good_house_passes(name):
    assert RULES[name](HOUSE) == []


@pytest.mark.parametrize("name", PLANTED)
def test_planted_violations_are_seen(name):
    rule, module, text = PLANTED[name]
    found = RULES[rule](HOUSE | {module: text})
    assert len(found) == 1, found
    assert module in found[0]


def test_what_is_just_allowed_passes():
    docstring = '    """One.\n\n    Two.\n    """\n'
    text = (
        f"def f({', '.join(f'a{i}' for i in range(12))}, *, b):\n{docstring}" + "    x = 1\n" * 60
    )
    assert long_functions({"contract": text}) == []
