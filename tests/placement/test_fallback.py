"""Ahead-of-time machine code, numba and Python give the same bits; numba needs no cache folder."""

import shutil
import subprocess
import sys
from pathlib import Path
from types import BuiltinFunctionType
from typing import Any

import numpy as np
import pytest

from merkatd.cluster import Floats, Ints, Migrate
from merkatd.placement import STRATEGIES, strategy_named
from merkatd.placement.base import compiled as compiled_functions
from merkatd.placement.base.board import without_vm
from merkatd.placement.base.host_shares import SUM_OF_SHORTFALLS, host_score
from merkatd.placement.base.least_load import loads, start_market
from tests.clouds import crowded, tangled
from tests.lengths import SOAK

PROGRAM = """
import sys
from merkatd.placement import strategy_named
from merkatd.placement.base import compiled
from tests.clouds import crowded, tangled
assert compiled._machine_code() is None
assert (compiled._njit() is None) == (sys.argv[2] == "python"), sys.argv
for strategy in sys.argv[1].split():
    for snapshot in (tangled(8), tangled(21), tangled(28), crowded(10, 1, 5)):
        decision = strategy_named(strategy).decide(snapshot)
        gains = [s.gain if s.kind == "migrate" else 0 for s in decision.plan]
        print([(s.vm, s.host, s.reason) for s in decision.plan], gains)
        print(decision.allocations.tolist(), decision.prices.tolist())
        print(sorted(decision.reasons.items()))
"""

NO_CACHE = """
from merkatd.placement.base.compiled import compiled
import numba.core.caching as caching
caching.CacheImpl._locator_classes = []
print(compiled(lambda x: x + 1)(1))
"""

WITHOUT_MACHINE_CODE = """
import sys
class Finder:
    @staticmethod
    def find_spec(name, *_rest):
        if ".machine_code_" in name:
            raise ImportError(name)
sys.meta_path.insert(0, Finder)
"""

FORMS = {
    "numba": WITHOUT_MACHINE_CODE,
    "python": WITHOUT_MACHINE_CODE + "sys.modules['numba'] = None\n",
}


def expected(strategy: str) -> str:
    """Return the decisions of this process, which uses the fastest available form."""
    lines = []
    for snapshot in (tangled(8), tangled(21), tangled(28), crowded(10, 1, 5)):
        decision = strategy_named(strategy).decide(snapshot)
        gains = [step.gain if isinstance(step, Migrate) else 0 for step in decision.plan]
        places = [(s.vm, s.host, s.reason) for s in decision.plan]  # type: ignore[attr-defined]
        lines += [
            f"{places} {gains}",
            f"{decision.allocations.tolist()} {decision.prices.tolist()}",
            f"{sorted(decision.reasons.items())}",
        ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_make_the_same_decisions(form: str) -> None:
    """Plans, reasons, shares and prices are identical in all forms.

    numba compiles the functions of a strategy for seconds: `make test` runs the quickest.
    """
    strategies = ["groups"] if form == "numba" and not SOAK else [*STRATEGIES]
    done = subprocess.run(
        [sys.executable, "-c", FORMS[form] + PROGRAM, " ".join(strategies), form],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.stderr == ""
    assert done.stdout == "".join(map(expected, strategies))


def test_code_is_compiled_for_this_run_if_no_cache_is_writable() -> None:
    """A service with read-only home and program folders still decides."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            NO_CACHE,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "2\n", done.stderr


def _twice_the_loads(
    rows: Ints, starts: Ints, counts: Ints, capacity: Floats, bid: Floats
) -> Floats:
    return 2.0 * loads(rows, starts, counts, capacity, bid)


def test_functions_outside_of_the_package_compile_with_ahead_of_time_code() -> None:
    """Functions that they call are compiled from their Python form, with the same bits."""
    game = start_market(crowded(4, 1), 0)
    board = game.board
    given = (board.rows, board.start, board.count, board.capacity, game.view.bid)
    direct = loads(*given)
    # Compiled here because numba would be imported in each process that collects tests.
    assert compiled_functions.compiled(_twice_the_loads)(*given).tolist() == (2.0 * direct).tolist()
    assert (direct > 0).all()


@pytest.mark.parametrize(
    "rows",
    [
        np.zeros(3),
        np.zeros(3, dtype=np.int32),
        np.zeros((3, 1), dtype=np.int64),
        [0, 1, 2],
        None,
    ],
    ids=["float", "int32", "table", "list", "none"],
)
def test_wrong_arrays_raise_type_errors(rows: Any) -> None:
    """Ahead-of-time machine code checks the types of its arguments instead of misreading them."""
    if not isinstance(without_vm, BuiltinFunctionType):
        pytest.skip("no machine code for these sources: make compile")
    with pytest.raises(TypeError):
        without_vm(rows, 0, 1, 0, np.zeros(9, dtype=np.int64))
    stakes = start_market(crowded(4, 1), 0).stakes._replace(bid=rows)
    with pytest.raises(TypeError):
        host_score(np.arange(2), 2, np.zeros(2), stakes, SUM_OF_SHORTFALLS, np.empty((2, 3)))


def test_machine_code_of_other_sources_is_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any change of the sources changes the module's name; moving the sources does not."""
    name = compiled_functions.module_name()
    top = Path(compiled_functions.__file__).parents[2]
    for folder in ("market", "placement"):
        shutil.copytree(top / folder, tmp_path / folder)
    there = tmp_path / "placement/base/compiled.py"
    monkeypatch.setattr(compiled_functions, "__file__", str(there))
    assert compiled_functions.module_name() == name
    changed = there.with_name("board.py")
    changed.write_text(changed.read_text().replace("count + 1", "count + 2"))
    assert compiled_functions.module_name() != name


def _refused(_path: Path, **_options: bool) -> None:
    raise PermissionError


def _homeless() -> Path:
    raise RuntimeError


def test_numba_caches_code_separately_for_each_version_of_the_sources(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A cache of older sources may name removed classes, on which numba would fail."""
    name = compiled_functions.module_name()
    assert compiled_functions._cache_folder().name == name
    with monkeypatch.context() as patched:
        patched.setenv("HOME", str(tmp_path))
        patched.setattr(Path, "mkdir", _refused)
        assert compiled_functions._cache_folder() == tmp_path / ".cache/merkat" / name
        patched.setattr(Path, "home", _homeless)
        assert compiled_functions._cache_folder().name == name
    program = WITHOUT_MACHINE_CODE + (
        "from merkatd.placement.base import compiled, board\n"
        "print(board.without_vm._cache.cache_path)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert name in done.stdout
