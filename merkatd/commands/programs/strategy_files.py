"""Strategies from files: a Python file whose `STRATEGY` is the entry of a new strategy."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from merkatd.placement import STRATEGIES, StrategyEntry
from merkatd.placement.registry import add_strategy

_SUFFIX = ".py"
_VARIABLE = "STRATEGY"


class StrategyFileError(ValueError):
    """Raised for a file without a valid strategy; the message says what is wrong."""


def load_strategy(path: Path) -> StrategyEntry:
    """Run a file, and add its strategy to those of this process. Raise StrategyFileError."""
    name = f"merkat_strategy_file_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise StrategyFileError(f"{path}: there is no such file of Python")
    module = module_from_spec(spec)
    # The meanings of settings are read from the module's source.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise StrategyFileError(f"{path}: {type(error).__name__}: {error}") from error
    entry = getattr(module, _VARIABLE, None)
    if not isinstance(entry, StrategyEntry):
        raise StrategyFileError(f"{path}: {_VARIABLE} must be a StrategyEntry (got {entry!r:.60})")
    try:
        add_strategy(entry)
    except ValueError as error:
        raise StrategyFileError(f"{path}: {error}") from None
    return entry


class NamesOrFiles(tuple[str, ...]):
    """The choices of an option `--strategy`: all names, and any file of Python."""

    __slots__ = ()

    def __contains__(self, value: object) -> bool:
        """Return whether this is a name or may be a file."""
        return super().__contains__(value) or (isinstance(value, str) and value.endswith(_SUFFIX))


def names_or_files() -> NamesOrFiles:
    """Return the present names, and any file of Python."""
    return NamesOrFiles(STRATEGIES)


def strategy_of(argument: str) -> str:
    """Return the strategy's name, after its file has run. Raise StrategyFileError."""
    if argument in STRATEGIES:
        return argument
    return load_strategy(Path(argument)).name
