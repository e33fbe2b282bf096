"""The rules of the layout notice what breaks them; `make check` asks them of the whole tree."""

from pathlib import Path, PurePath

from tests.layout import rules
from tests.layout.rules import Module

TOP = Path(__file__).parents[2]


def module(path: str, text: str = "") -> Module:
    """A module of this text."""
    return Module(PurePath(path), text)


def test_the_rules_are_asked_of_all_modules() -> None:
    """`make check` does so."""
    assert len(rules.modules(TOP)) > 400


def test_a_thirteenth_module_is_too_many() -> None:
    """A room has twelve modules at most, and its `__init__` beside them."""
    room = [module(f"merkatd/market/m{number}.py") for number in range(12)]
    package = module("merkatd/market/__init__.py")
    assert not list(rules.full_rooms([*room, package]))
    broken = list(rules.full_rooms([*room, package, module("merkatd/market/one_more.py")]))
    assert broken == ["merkatd/market: 13 modules; a room has at most 12"]
    assert not list(rules.full_rooms(module(f"benchmarks/m{number}.py") for number in range(13)))


def test_a_room_without_init_is_not_installed() -> None:
    """It works in a checkout, where nobody would notice."""
    room = module("merkatd/market/lots/lot.py")
    assert list(rules.rooms_left_out([room])) == [
        "merkatd/market/lots: no __init__.py; pip leaves the room out"
    ]
    assert not list(rules.rooms_left_out([room, module("merkatd/market/lots/__init__.py")]))


def test_a_module_may_be_long_but_not_longer() -> None:
    """350 lines are the limit."""
    assert not list(rules.long_modules([module("merkatd/cli.py", "\n" * 350)]))
    assert len(list(rules.long_modules([module("merkatd/cli.py", "\n" * 351)]))) == 1


def test_a_module_of_tests_has_the_same_limit(tmp_path: Path) -> None:
    """Its name and its room are free."""
    room = tmp_path / "tests" / "market"
    room.mkdir(parents=True)
    for number in range(13):
        (room / f"test_{number}.py").write_text("\n" * (350 + (number == 7)))
    assert list(rules.broken_rules(tmp_path)) == [
        "tests/market/test_7.py: 351 lines; a module has at most 350"
    ]


def test_names_stand_for_one_file() -> None:
    """Two files of one name are told apart by nobody."""
    two = [module("merkatd/market/price.py"), module("simulator/price.py")]
    assert list(rules.names_taken_twice(two)) == [
        "price: taken 2 times, in merkatd/market/price.py, simulator/price.py"
    ]
    assert not list(rules.names_taken_twice([module("merkatd/cli.py"), module("onegroup/cli.py")]))


def test_public_classes_stand_for_one_thing() -> None:
    """Answers of the client bear the names of what they tell."""
    first, second = (
        module("merkatd/a.py", "class Price: ..."),
        module("onegroup/b.py", "class Price: ..."),
    )
    assert len(list(rules.classes_taken_twice([first, second]))) == 1
    answer = module("merkatd/client/answers.py", "class Price: ...")
    assert not list(rules.classes_taken_twice([first, answer]))
    private = [module("merkatd/a.py", "class _A: ..."), module("merkatd/b.py", "class _A: ...")]
    assert not list(rules.classes_taken_twice(private))


def test_circles_are_found_however_they_close() -> None:
    """Through a third file, through a package's own file, and inside of a function."""
    three = [
        module("merkatd/a.py", "from merkatd import b"),
        module("merkatd/b.py", "from merkatd.c import d"),
        module("merkatd/c.py", "def f():\n    import merkatd.a"),
        module("merkatd/e.py", "from merkatd import a"),
    ]
    assert list(rules.circles(three)) == [
        "these import each other: merkatd.a, merkatd.b, merkatd.c"
    ]
    package = [
        module("merkatd/r/__init__.py", "from merkatd.r.x import X"),
        module("merkatd/r/x.py", "from merkatd.r import Y"),
    ]
    assert list(rules.circles(package)) == ["these import each other: merkatd.r, merkatd.r.x"]
    assert not list(rules.circles(three[:2] + three[3:]))
