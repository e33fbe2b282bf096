"""What others build on: one text a topic, made from the code."""

import argparse
import inspect
import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from typing import Any, Generic, Protocol

import numpy as np
import sqlalchemy as sa
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

import controllers.controller
import merkat.cli
import merkatd.cli
import merkatd.client
import onegroup.cli
from merkatd.api.xmlrpc.methods import METHODS
from merkatd.cluster.snapshot_json import dumps
from merkatd.cluster.snapshot_npz import to_npz
from merkatd.config.configuration import Config
from merkatd.config.setting_schema import Setting
from merkatd.config.setting_values import sections, write
from merkatd.database.migrations import METADATA
from merkatd.protocol.bus_messages import FROM_DAEMON, TO_DAEMON, VERSION
from tests.figures import all_figures
from tests.public.shapes import members, shape
from tests.scheduler.frontend import Frontend

TOPICS: dict[str, Callable[[], Iterator[str]]] = {}


def topic(lines: Callable[[], Iterator[str]]) -> Callable[[], Iterator[str]]:
    """List it by its name."""
    TOPICS[lines.__name__] = lines
    return lines


@topic
def commands() -> Iterator[str]:
    """Words, options and values of every command."""
    for program in (merkatd.cli.parser(), merkat.cli.parser(), onegroup.cli.parser()):
        yield from _words(program.prog, program)


def _words(path: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, choice in action.choices.items():
                yield from _words(f"{path} {name}", choice)
            continue
        name = " ".join(action.option_strings) or f"<{action.dest}>"
        values = "" if action.nargs == 0 else f" {action.metavar or action.dest}"
        many = "" if action.nargs in {None, 0} else f" x{action.nargs}"
        choices = "" if action.choices is None else f" of {', '.join(map(str, action.choices))}"
        needed = " (required)" if action.required else ""
        yield f"{path}: {name}{values}{many}{choices}{needed}"
    for listed, table in (parser.get_default("tables") or {}).items():
        for column in table.columns:
            shown = "" if column.default else " (with -l)"
            yield f"{path}: {listed}.{column.name} {column.key} {column.kind.value}{shown}"


@topic
def configuration() -> Iterator[str]:
    """Every key, with what its value is and its default."""
    for path, section, settings in sections(Config()):
        for setting in settings:
            default = write(setting, getattr(section, setting.name))
            yield f"{'.'.join(path)}.{setting.key}: {_setting(setting)} = {default}"


def _setting(setting: Setting) -> str:
    return setting.unit.what if setting.unit is not None else shape(setting.hint)


@topic
def xmlrpc() -> Iterator[str]:
    """Every method of the tenants' interface."""
    for name, method in sorted(METHODS.items()):
        for parameter in method.parameters:
            default = "" if parameter.needed else f" = {parameter.default!r}"
            yield f"{name}({parameter.name}): {parameter.kind}{default}"
        kind = " (administrators)" if method.admin else ""
        yield f"{name} -> {method.returns.kind}: {', '.join(method.returns.members)}{kind}"
        if method.returns.inner:
            yield f"{name} -> inner: {', '.join(method.returns.inner)}"


@topic
def bus() -> Iterator[str]:
    """Every message between the daemon and the processes beside it."""
    yield f"version {VERSION}"
    for name, kind in sorted(TO_DAEMON.items()):
        yield f"to the daemon: {name} {shape(kind)}"
    for name, kind in sorted(FROM_DAEMON.items()):
        yield f"from the daemon: {name} {shape(kind)}"


@topic
def schema() -> Iterator[str]:
    """The tables, as SQLite and as MariaDB have them."""
    for dialect in (sqlite.dialect(), mysql.dialect()):
        for table in sorted(METADATA.tables.values(), key=lambda table: table.name):
            yield from _statement(CreateTable(table), dialect)
            for index in sorted(table.indexes, key=lambda index: str(index.name)):
                yield from _statement(CreateIndex(index), dialect)


def _statement(made: Any, dialect: sa.Dialect) -> Iterator[str]:
    for line in str(made.compile(dialect=dialect)).strip().splitlines():
        yield f"{dialect.name}: {line.strip()}"


@topic
def metrics() -> Iterator[str]:
    """Every figure, its kind and its labels."""
    for family in sorted(all_figures(), key=lambda family: family.name):
        names = {
            f"{sample.name}{{{', '.join(sorted(sample.labels))}}}" for sample in family.samples
        }
        for name in sorted(names):
            yield f"{family.type} {name}"


@topic
def exit_codes() -> Iterator[str]:
    """As the commands say them."""
    for program in (merkatd.cli, merkat.cli, onegroup.cli):
        words = (program.__doc__ or "").partition("Exit codes")[2]
        yield f"{program.parser().prog}: {', '.join(re.findall(r'[0-9]+', words))}"


@topic
def snapshot_file() -> Iterator[str]:
    """The columns of a snapshot's JSON, and of its compact form."""
    frontend = Frontend(hosts=2)
    frontend.vm(5.0)
    snapshot = frontend.periods(2).seen.snapshot
    frontend.close()
    text = dumps(snapshot)
    assert json.loads(text).keys() >= {"now_s", "hosts", "vms", "markets"}
    for name, value in json.loads(text).items():
        rows = value if isinstance(value, list) and value and isinstance(value[0], dict) else [{}]
        yield f"json: {name}: {', '.join(rows[0])}"
    with np.load(io.BytesIO(to_npz(snapshot))) as arrays:
        for name in sorted(arrays.files):
            yield f"npz: {name} {arrays[name].dtype.kind} {arrays[name].ndim}"


@topic
def client() -> Iterator[str]:
    """What programs of tenants import."""
    yield from _module(merkatd.client, merkatd.client.__all__)


@topic
def controller() -> Iterator[str]:
    """What a site's own controllers import."""
    module = controllers.controller
    own = [
        n
        for n, value in vars(module).items()
        if getattr(value, "__module__", "") == module.__name__
    ]
    yield from _module(module, [name for name in own if not name.startswith("_")])


def _module(module: Any, names: list[str]) -> Iterator[str]:
    for name in sorted(names):
        value = getattr(module, name)
        if is_dataclass(value) and isinstance(value, type):
            for member in members(value):
                yield f"{name}.{member}"
        elif inspect.isclass(value):
            bases = [
                base.__name__ for base in value.__mro__[1:-1] if base not in {Protocol, Generic}
            ]
            yield f"{name}({', '.join(bases)})"
        elif callable(value):
            yield f"{name}{_called(value)}"
        yield from _methods(name, value)


def _methods(name: str, kind: Any) -> Iterator[str]:
    if not inspect.isclass(kind) or issubclass(kind, BaseException):
        return
    for own, member in inspect.getmembers(kind):
        if own.startswith("_") and own != "__init__":
            continue
        if isinstance(member, property):
            yield f"{name}.{own} (property)"
        elif inspect.isfunction(member) and member.__qualname__ == f"{kind.__name__}.{own}":
            yield f"{name}.{own}{_called(member)}"


def _called(function: Any) -> str:
    return f"({', '.join(map(_parameter, inspect.signature(function).parameters.values()))})"


def _parameter(parameter: inspect.Parameter) -> str:
    """Defaults are named where they are the same everywhere: an environment's variables are not."""
    known = parameter.default is None or isinstance(
        parameter.default, bool | int | float | str | tuple
    )
    default = parameter.default if known or parameter.default is parameter.empty else ...
    return str(parameter.replace(annotation=parameter.empty, default=default))
