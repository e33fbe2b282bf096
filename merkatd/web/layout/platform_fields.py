"""The fields of the form for a new platform, the template that they make, and its problems.

# Note [Two views of a template]
The form and the TOML text are two views of one template. `template_of` writes the values of the
form as TOML; the daemon checks and stores only TOML. `values_of` reads the values back. It also
returns the keys of the text that the form has no field for; then the text stays in its own view,
and nothing gets lost. A value that is no number is written as a text, so the reader of templates
reports it at its key, together with all other problems. `by_field` shows each problem beside the
field of its key. Example: a budget of `much` becomes `credits = "much"`, and the reader's problem
with `budget.credits` is shown beside the budget.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from merkatd.base.bounded_toml import read_toml

NO_CONTROLLER = "none"
KINDS = {
    "none": "you bid yourself",
    "best_effort": "as much as the budget buys in the remaining time",
    "deadline": "all its iterations before the deadline, or none",
    "full_deadline": "all its iterations before the deadline, or none",
    "partial_deadline": "as many iterations as possible before the deadline",
    "full_performance": "the sooner the better",
    "patient": "at full speed or not at all, before the deadline",
    "elastic": "a batch system, whose workers come and go",
}
"""What each kind of controller does, in a few words."""


@dataclass(frozen=True, slots=True)
class PlatformField:
    """A field of the form."""

    name: str
    label: str
    hint: str
    key: str
    """The key in the template that it sets."""
    is_number: bool = False


FIELDS: Sequence[PlatformField] = (
    PlatformField("name", "Name", "A letter, then letters, digits, _ or -.", "name"),
    PlatformField(
        "controller", "Controller", "It bids for the platform, towards its goal.", "controller.kind"
    ),
    PlatformField(
        "steps", "Iterations", "The work in all, for controllers with a deadline. May be empty.",
        "controller.parameters.steps", is_number=True,
    ),
    PlatformField("market", "Market", "Its VMs run in this market.", "market"),
    PlatformField("credits", "Budget", "Credits.", "budget.credits", is_number=True),
    PlatformField(
        "replenishment", "Replenishment", "Credits at each renewal. May be empty.",
        "budget.replenishment", is_number=True,
    ),
    PlatformField(
        "deadline", "Deadline",
        "A time from now (6h), or a date (2026-05-01T09:00:00Z). May be empty.", "slo.deadline",
    ),
    PlatformField(
        "ideal_run", "Time at full speed", "How long the work takes at least (40m). May be empty.",
        "slo.ideal_run",
    ),
    PlatformField("cluster", "Name of the VMs", "The name of their cluster.", "cluster[1].name"),
    PlatformField(
        "initial", "VMs at the start", "A whole number.", "cluster[1].initial", is_number=True
    ),
    PlatformField("least", "At least", "VMs. May be empty.", "cluster[1].least", is_number=True),
    PlatformField("most", "At most", "VMs. May be empty.", "cluster[1].most", is_number=True),
    PlatformField(
        "template_name", "VM template",
        "The name of a template in OpenNebula. If empty, the next three fields make one.",
        "cluster[1].template_name",
    ),
    PlatformField("cpu", "CPU of a VM", "Cores.", "CPU", is_number=True),
    PlatformField("vcpu", "Virtual CPUs of a VM", "A whole number. May be empty.", "VCPU", True),
    PlatformField("memory", "Memory of a VM", "MiB.", "MEMORY", is_number=True),
    PlatformField(
        "log", "Log of the iterations",
        "A file in each VM, which the monitor `steps` reads. May be empty.",
        "cluster[1].monitor.parameters.log",
    ),
)  # fmt: skip
GROUPS: Sequence[tuple[str, Sequence[str]]] = (
    ("The platform", ("name", "controller", "steps", "market")),
    ("Money and time", ("credits", "replenishment", "deadline", "ideal_run")),
    ("Its VMs", ("cluster", "initial", "least", "most")),
    ("Each VM", ("template_name", "cpu", "vcpu", "memory", "log")),
)
EXAMPLE = {
    "name": "weather", "controller": NO_CONTROLLER, "credits": "500", "deadline": "2h",
    "cluster": "ranks", "initial": "2", "least": "2", "cpu": "1", "vcpu": "1", "memory": "512",
}  # fmt: skip
NAMES = tuple(field.name for field in FIELDS)
_OF_NAME = {field.name: field for field in FIELDS}
_VM = ("cpu", "vcpu", "memory")
_UNSAFE = re.compile(r"[^\w.+-]", re.ASCII)
_VM_SIZE = re.compile("CPU|VCPU|MEMORY")
_NUMBER = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?", re.ASCII)
_PROBLEM = re.compile(r"(\S+?)(?: = .*?)?: (.*)", re.DOTALL)


def template_of(values: Mapping[str, str]) -> str:
    """Return the template in TOML that the values of the form make."""

    def line(name: str, key: str = "") -> list[str]:
        given, field = values.get(name, ""), _OF_NAME[name]
        text = _toml(given, is_number=field.is_number)
        return [f"{key or field.key.rpartition('.')[2]} = {text}"] if given else []

    steps = _toml(values.get("steps", ""), is_number=True)
    budget = [*line("credits"), *line("replenishment")]
    goal = [*line("deadline"), *line("ideal_run")]
    own = not values.get("template_name")
    lines = [
        *line("name"), *line("market"),
        "", "[controller]", *line("controller", "kind"),
        *([f"parameters = {{ steps = {steps} }}"] if values.get("steps") else []),
        *(["", "[budget]", *budget] if budget else []),
        *(["", "[slo]", *goal] if goal else []),
        "", "[[cluster]]", *line("cluster", "name"),
        *line("least"), *line("initial"), *line("most"), *line("template_name"),
        *(['template = """', *_vm_lines(values), '"""'] if own else []),
    ]  # fmt: skip
    if values.get("log"):
        log = _toml(values["log"], is_number=False)
        lines += ["", "[cluster.monitor]", 'kind = "steps"', f"parameters = {{ log = {log} }}"]
    return "\n".join([*lines, ""])


def _vm_lines(values: Mapping[str, str]) -> list[str]:
    given = {name: _UNSAFE.sub("", values.get(name, "")) for name in _VM}
    return [f'{name.upper()} = "{value}"' for name, value in given.items() if value]


def _toml(text: str, *, is_number: bool) -> str:
    """Return a value in TOML; a wrong number is written as a text."""
    if is_number and _NUMBER.fullmatch(text):
        return text
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def values_of(text: str) -> tuple[dict[str, str], list[str]]:
    """Return the values of a template, and its keys that the form has no field for.

    Raise ValueError for a text that is not TOML.
    """
    flat = dict(_flat(read_toml(text), ""))
    keys = {field.key: field.name for field in FIELDS if field.name not in _VM}
    values, other = dict.fromkeys(NAMES, ""), []
    for key, value in flat.items():
        if key == "cluster[1].template" and isinstance(value, str):
            other += _read_vm(value, values)
        elif key == "cluster[1].monitor.kind" and value == "steps":
            continue
        elif key in keys and not isinstance(value, bool | list | Mapping):
            values[keys[key]] = _text(value)
        else:
            other.append(key)
    if "cluster[1].monitor.kind" in flat and not values["log"]:
        other.append("cluster[1].monitor")
    return values, other


def _flat(value: Any, path: str) -> list[tuple[str, Any]]:
    """Return the values of nested tables by their paths."""
    if isinstance(value, Mapping) and value:
        dot = f"{path}." if path else ""
        return [pair for key, inner in value.items() for pair in _flat(inner, f"{dot}{key}")]
    if isinstance(value, list) and value and all(isinstance(inner, Mapping) for inner in value):
        rows = enumerate(value, start=1)
        return [pair for at, inner in rows for pair in _flat(inner, f"{path}[{at}]")]
    return [(path, value)]


def _read_vm(text: str, values: dict[str, str]) -> list[str]:
    """Put the sizes of a VM template into the values; return its other lines."""
    other = []
    for line in filter(str.strip, text.splitlines()):
        size = _vm_size(line)
        if size is None or values[size[0]]:
            other.append(f"cluster[1].template: {line.strip()[:40]}")
        else:
            values[size[0]] = size[1]
    return other


def _vm_size(line: str) -> tuple[str, str] | None:
    """Return the field and the value of a line like `CPU = "1"`, None for other lines.

    No regular expression reads the whole line: many blanks would take it cubic time.
    """
    name, equal, value = (part.strip() for part in line.partition("="))
    value = value.removeprefix('"').removesuffix('"')
    if not equal or not _VM_SIZE.fullmatch(name) or '"' in value or "\\" in value:
        return None
    return name.lower(), value


def _text(value: Any) -> str:
    if isinstance(value, float):
        return repr(value).removesuffix(".0") if isfinite(value) else str(value)
    return str(value)


def size_problems(values: Mapping[str, str]) -> dict[str, str]:
    """Return the problems of the sizes of a VM, which its template has only as texts."""
    if values.get("template_name"):
        return {}
    wrong = {}
    for name in _VM:
        text = values.get(name, "")
        if not text and name != "vcpu":
            wrong[name] = "Is missing: enter it, or the name of a VM template."
        elif text and not (_NUMBER.fullmatch(text) and float(text) > 0):
            wrong[name] = f"Must be a number above 0 (got {text[:40]!r})."
    return wrong


def by_field(problems: Sequence[str], values: Mapping[str, str]) -> dict[str, str]:
    """Return all problems of a form by field; "" has those without a field of their own."""
    wrong = size_problems(values)
    sized = bool(wrong)
    for problem in problems:
        match = _PROBLEM.fullmatch(problem)
        key = match[1] if match else problem.partition(" ")[0]
        name = next((field.name for field in FIELDS if field.key == key), "")
        if key == "cluster[1].template":
            if sized:
                continue  # the same problem, beside its own field
            name = "memory"
        name = {"budget": "credits", "controller.parameters": "steps"}.get(key, name)
        words = problem
        if name and match:
            got = f" (got {values[name][:40]!r})" if values.get(name) else ""
            words = f"{match[2][:1].upper()}{match[2][1:]}{got}."
        wrong[name] = f"{wrong[name]}\n{words}" if name in wrong else words
    return wrong
