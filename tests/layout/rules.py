"""Rules of the layout, each a function from the modules to what breaks it."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath

ROOTS = ("merkatd", "controllers", "merkat", "onegroup", "simulator", "benchmarks")
MAX_MODULES = 12
MAX_LINES = 350
LARGE_ROOMS = {"benchmarks"}
"""One script a subject, each started by its name: nobody looks for anything else there."""
ROOMS_OF_SCRIPTS = {"merkatd/opennebula/driver/remotes"}
"""Files that are installed as data, and copied to OpenNebula's folders."""
COMMON_NAMES = {"__init__", "__main__", "cli", "errors", "settings"}
CLIENT = "merkatd/client/"
"""Its answers bear the names of the values that they tell."""


@dataclass(frozen=True, slots=True)
class Module:
    """One file."""

    path: PurePath
    text: str

    @property
    def room(self) -> str:
        """The folder that it stands in."""
        return self.path.parent.as_posix()

    @property
    def dotted(self) -> str:
        """The name by which it is imported."""
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules(top: Path, roots: Iterable[str] = ROOTS) -> list[Module]:
    """All modules of the programs below a folder."""
    paths = [path for root in roots for path in sorted((top / root).rglob("*.py"))]
    return [Module(path.relative_to(top), path.read_text()) for path in paths]


def full_rooms(all_: Iterable[Module]) -> Iterator[str]:
    """Rooms of more than a dozen modules."""
    count = defaultdict[str, int](int)
    for module in all_:
        count[module.room] += module.path.stem != "__init__"
    for room, number in count.items():
        if number > MAX_MODULES and room not in LARGE_ROOMS:
            yield f"{room}: {number} modules; a room has at most {MAX_MODULES}"


def rooms_left_out(all_: Iterable[Module]) -> Iterator[str]:
    """Rooms without `__init__.py`: pip would not install them."""
    all_ = list(all_)
    packages = {module.room for module in all_ if module.path.stem == "__init__"}
    for room in sorted({module.room for module in all_} - packages - ROOMS_OF_SCRIPTS):
        yield f"{room}: no __init__.py; pip leaves the room out"


def long_modules(all_: Iterable[Module]) -> Iterator[str]:
    """Modules too long to be read at once."""
    for module in all_:
        if (lines := module.text.count("\n")) > MAX_LINES:
            yield f"{module.path}: {lines} lines; a module has at most {MAX_LINES}"


def names_taken_twice(all_: Iterable[Module]) -> Iterator[str]:
    """Names of modules that stand for several files."""
    where = defaultdict[str, list[PurePath]](list)
    for module in all_:
        if module.path.stem not in COMMON_NAMES:
            where[module.path.stem].append(module.path)
    yield from _twice(where)


def classes_taken_twice(all_: Iterable[Module]) -> Iterator[str]:
    """Names of public classes that stand for several things."""
    where = defaultdict[str, list[PurePath]](list)
    for module in all_:
        if module.path.as_posix().startswith(CLIENT):
            continue
        for name in _read(module.text)[0]:
            if not name.startswith("_"):
                where[name].append(module.path)
    yield from _twice(where)


def _twice(where: Mapping[str, list[PurePath]]) -> Iterator[str]:
    for name, paths in sorted(where.items()):
        if len(paths) > 1:
            yield f"{name}: taken {len(paths)} times, in {', '.join(map(str, paths))}"


def circles(all_: Iterable[Module]) -> Iterator[str]:
    """Files that import each other, also through others, and also inside of functions."""
    imports = _imports(list(all_))
    for circle in _components(imports):
        if len(circle) > 1:
            yield f"these import each other: {', '.join(sorted(circle))}"


def _imports(all_: list[Module]) -> dict[str, set[str]]:
    known = {module.dotted for module in all_}
    imports: dict[str, set[str]] = {}
    for module in all_:
        names = set[str]()
        for node in _read(module.text)[1]:
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif node.module:
                for alias in node.names:
                    full_name = f"{node.module}.{alias.name}"
                    names.add(full_name if full_name in known else node.module)
        imports[module.dotted] = names & known - {module.dotted}
    return imports


@cache
def _read(text: str) -> tuple[list[str], list[ast.Import | ast.ImportFrom]]:
    """Return a module's classes and imports. Its tree is large and therefore not kept."""
    tree = ast.parse(text)
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    statements = _statements(tree)
    return classes, [node for node in statements if isinstance(node, ast.Import | ast.ImportFrom)]


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Return all statements inside of this one: expressions, most of a tree, contain none."""
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        inside = getattr(node, part, ())
        for statement in inside if isinstance(inside, list) else ():
            yield statement
            yield from _statements(statement)


def _components(arrows: Mapping[str, set[str]]) -> Iterator[set[str]]:
    """The strongly connected components, by Tarjan's algorithm without recursion."""
    order, low, stack = dict[str, int](), dict[str, int](), list[str]()
    for start in arrows:
        if start in order:
            continue
        order[start] = low[start] = len(order)
        stack.append(start)
        work = [(start, iter(sorted(arrows[start])))]
        while work:
            name, rest = work[-1]
            target = next(
                (neighbour for neighbour in rest if neighbour not in order or neighbour in stack),
                None,
            )
            if target is None:
                work.pop()
                if work:
                    above = work[-1][0]
                    low[above] = min(low[above], low[name])
                if low[name] == order[name]:
                    at = stack.index(name)
                    yield set(stack[at:])
                    del stack[at:]
            elif target in order:
                low[name] = min(low[name], order[target])
            else:
                order[target] = low[target] = len(order)
                stack.append(target)
                work.append((target, iter(sorted(arrows[target]))))


RULES = (full_rooms, rooms_left_out, long_modules, names_taken_twice, classes_taken_twice, circles)


def broken_rules(top: Path) -> Iterator[str]:
    """Yield what breaks the rules below a folder; of the tests only their length counts."""
    programs = modules(top)
    for rule in RULES:
        yield from rule(programs)
    yield from long_modules(modules(top, ["tests"]))
