"""Compile the functions of the strategies to machine code, ahead of time.

    python packaging/compile_functions.py [FOLDER]

FOLDER contains the sources (default: this checkout). The extension module is written beside them.
numba compiles here only: the module runs without it, and on every machine of the architecture.

Annotations lack the number of dimensions of an array. So the strategies run on small clouds first,
as Python, and each function is compiled for the arguments that it got there. Arrays get the layout
"any": callers also pass columns and transposed tables, and the module does not check the layout. It
checks types and dimensions, which pycc does not, and raises TypeError for other arrays.
"""

import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from runpy import run_path
from typing import Any

CHECKOUT = Path(__file__).parents[1]


def main(root: Path) -> None:
    """Write the extension module for the sources in this folder, unless it is there."""
    sys.path[:0] = [str(root), str(CHECKOUT)]
    folder = root / "merkatd/placement/base"
    name = module_name(folder / "compiled.py")
    target = folder / f"{name}{EXTENSION_SUFFIXES[0]}"
    if target.exists():
        return
    numba: Any = import_module("numba")
    njit, numba.njit = numba.njit, lambda **_options: CallRecorder
    compiled = import_module("merkatd.placement.base.compiled")
    if Path(str(compiled.__file__)).parent != folder:
        raise SystemExit(f"merkatd must come from {root} (got {compiled.__file__})")
    with tempfile.TemporaryDirectory(dir=folder, prefix="machine_code_") as made:
        run_strategies()
        numba.njit = njit
        write_module(name, Path(made))
        for old in folder.glob("machine_code_*.so"):
            old.unlink()
        (Path(made) / target.name).replace(target)


def module_name(compiled: Path) -> str:
    """Return the name of the extension module, without an import of the strategies."""
    return str(run_path(str(compiled))["module_name"]())


def run_strategies() -> None:
    """Run every strategy, and `tabu` with each objective, on clouds that use all functions."""
    registry = import_module("merkatd.placement.registry")
    objectives = import_module("merkatd.placement.tabu.tabu").Objective
    crowded = import_module("tests.clouds").crowded
    for entry in registry.STRATEGIES.values():
        registry.warm_up(entry)
        entry.decide(crowded(12, 1))
    tabu = registry.strategy_named("tabu")
    for objective in objectives:
        settings = replace(tabu.defaults, objective=objective)
        for hosts in (4, 12):
            tabu.decide(crowded(hosts, 1), settings=settings)


class CallRecorder:
    """A function as Python, with the types of the arguments that it got.

    numba would compile each function for the layouts of these arrays, too, only to run it here.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.arguments: set[tuple[Any, ...]] = set()
        self._seen: set[tuple[Any, ...]] = set()

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        kinds = tuple(map(_kind, arguments))
        if kinds not in self._seen:
            self._seen.add(kinds)
            typeof = import_module("numba").typeof
            self.arguments.add(tuple(_general(typeof(each)) for each in arguments))
        return self.function(*arguments)


def _kind(value: Any) -> Any:
    """Return a value that differs for values of different types in machine code."""
    if isinstance(value, tuple):
        return type(value), tuple(map(_kind, value))
    return type(value), getattr(value, "dtype", None), getattr(value, "ndim", None)


def signatures() -> Iterator[tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Yield every function of the strategies with the types of its arguments.

    From now on the modules contain functions that numba compiles instead of recorders.
    """
    njit = import_module("numba").njit
    options = import_module("merkatd.placement.base.compiled")._OPTIONS  # noqa: SLF001
    forms: dict[CallRecorder, Any] = {}
    for name, module in sorted(sys.modules.items()):
        for key, value in list(vars(module).items()) if name.startswith("merkatd.") else ():
            if isinstance(value, CallRecorder):
                form = forms[value] if value in forms else njit(**options)(value.function)
                forms[value] = form
                setattr(module, key, form)
    # Functions that were not called are compiled with those that contain their calls.
    for missing in [recorder for recorder in forms if not recorder.arguments]:
        for recorder, form in forms.items():
            if missing.function.__name__ in recorder.function.__code__.co_names:
                for arguments in recorder.arguments:
                    form.compile(arguments)
        found = forms[missing].nopython_signatures
        missing.arguments |= {tuple(map(_general, each.args)) for each in found}
    for recorder in forms:
        yield recorder.function, _only(recorder)


def _only(recorder: CallRecorder) -> tuple[Any, ...]:
    """Return the types of a function's arguments, which are the same in all calls."""
    if len(recorder.arguments) != 1:
        form = recorder.function
        raise SystemExit(
            f"{form.__module__}.{form.__name__} must have one signature (got {recorder.arguments})"
        )
    (arguments,) = recorder.arguments
    return arguments


def write_module(name: str, folder: Path) -> None:
    """Write the extension module with all compiled functions to the folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numba plans a successor of pycc; there is none yet
        pycc = import_module("numba.pycc")
        compiler: Any = import_module("numba.pycc.compiler")
    import_module("numba.core.boxing")
    found = list(signatures())
    raise_type_errors()
    # pycc has no options for these two. They are the options of `compiled`.
    flags = compiler.Flags
    compiler.Flags = lambda: _with_options(flags())
    module = pycc.CC(name)
    module.output_dir = str(folder)
    for form, arguments in found:
        module.export(form.__name__, arguments)(form)
    module.compile()


def raise_type_errors() -> None:
    """Let functions raise TypeError for wrong arguments: pycc's would crash, or read wrong data."""
    api: Any = import_module("numba.core.pythonapi")
    array = import_module("numba.core.types").Array
    object_of, unbox = api.PythonAPI.get_c_object, api._unboxers.functions[array]  # noqa: SLF001

    def get_c_object(self: Any, name: str) -> Any:
        if not (name.startswith("PyExc_") and self.context.aot_mode):
            return object_of(self, name)
        # In a library the symbol is a variable with the object's address, not the object.
        return self.builder.load(self.context.get_c_value(self.builder, self.pyobj, name))

    def unbox_array(kind: Any, value: Any, context: Any) -> Any:
        if not context.context.aot_mode:
            return unbox(kind, value, context)
        return _unbox_checked(unbox, kind, value, context)

    api.PythonAPI.get_c_object = get_c_object
    api._unboxers.functions[array] = unbox_array  # noqa: SLF001


def _unbox_checked(unbox: Any, kind: Any, value: Any, context: Any) -> Any:
    """Return the native array, with an error if the object has another type or dimensions."""
    ir, helpers = import_module("llvmlite.ir"), import_module("numba.core.cgutils")
    support = import_module("numba.np.numpy_support")
    build, byte, word = context.builder, ir.IntType(8), ir.IntType(32)

    def read(start: Any, offset: int, form: Any) -> Any:
        at = build.gep(build.bitcast(start, byte.as_pointer()), [word(offset)])
        return build.load(build.bitcast(at, form.as_pointer()))

    # numba copies all dimensions to a place for those of this type: None is refused in time.
    too_many = build.icmp_signed(">", read(value, 24, word), word(kind.ndim))
    value = build.select(too_many, context.pyapi.borrow_none(), value)
    native = unbox(kind, value, context)
    wrong = helpers.alloca_once_value(build, native.is_error)
    with build.if_then(build.not_(native.is_error), likely=True):
        # PyArrayObject.nd, PyArrayObject.descr and PyArray_Descr.kind, on 64-bit machines.
        dimensions = read(value, 24, word)
        letter = read(read(value, 56, byte.as_pointer()), 24, byte)
        differs = build.or_(
            build.icmp_signed("!=", dimensions, word(kind.ndim)),
            build.icmp_signed("!=", letter, byte(ord(support.as_dtype(kind.dtype).kind))),
        )
        with build.if_then(differs, likely=False):
            context.pyapi.err_set_string("PyExc_TypeError", f"the array must be {kind}")
            build.store(helpers.true_bit, wrong)
    return type(native)(native.value, is_error=build.load(wrong), cleanup=native.cleanup)


def _with_options(flags: Any) -> Any:
    flags.release_gil = True
    flags.error_model = "numpy"
    return flags


def _general(kind: Any) -> Any:
    """Return the type for all values, layouts and access rights."""
    types = import_module("numba.core.types")
    kind = types.unliteral(kind)
    if isinstance(kind, types.NamedTuple):
        return types.NamedTuple(list(map(_general, kind.types)), kind.instance_class)
    if isinstance(kind, types.Array):
        return kind.copy(layout="A", readonly=False)
    return kind


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as cache:
        # Read by numba when it is imported. Cached code lacks the functions that it calls.
        os.environ |= {
            "NUMBA_CACHE_DIR": cache,
            "NUMBA_CPU_NAME": "generic",
            "NUMBA_CPU_FEATURES": "",
        }
        os.environ.pop("NUMBA_DISABLE_JIT", None)
        main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else CHECKOUT)
