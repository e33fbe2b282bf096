"""The text of a VM's template, in OpenNebula's words: what it may say, its size, what we add."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from merkatd.fields import MOST
from merkatd.remembering import Remembered, digest
from merkatd.syntax import ParseError, Template, UnwritableError, parse, written

MOST_VALUES = 1000
"""Values in the text of one template."""

_OURS = re.compile(r"MERKAT\w*")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_SIZES = ("CPU", "VCPU", "MEMORY")
_SHOWN = 20
_MOST_KEPT_BYTES = 1 << 24
_PARSED = 20
"""Bytes that a template takes for each character of its text: 19 where it is `A=[B=1]` lines."""
_MOST_FACTS_BYTES = 1 << 25
_FACTS = 250
"""Bytes that the facts of a text take."""


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a period needs to know of a text."""

    cpu: float
    memory: float
    named: bool


def wrong(text: str) -> str | None:
    """Why this can't be the template of a platform's VMs; None where it can."""
    try:
        template = _parsed(text)
        rendered(template)
    except ParseError as error:
        return str(error)
    found = next((name for name in sorted(template.names()) if _OURS.fullmatch(name)), None)
    if found is not None:
        return f"{found} is not for it: floor, ceiling and market stand beside it"
    found = next((name for name in _SIZES if _is_beyond(template, name)), None)
    if found is not None:
        got = _text(template, found) or ""
        shown = repr(got) if len(got) <= _SHOWN else f"{got[:_SHOWN]!r}..."
        return f"`{found}` must be at most {MOST:g} (got {shown})"
    if _number(template, "MEMORY") is None:
        return 'MEMORY="1024", in MiB, is missing'
    if _number(template, "CPU") is None and _number(template, "VCPU") is None:
        return 'CPU="1" or VCPU="1" is missing'
    return next((why for name in _SIZES if (why := _not_above_0(template, name))), None)


def _not_above_0(template: Template, name: str) -> str | None:
    """Return why OpenNebula refuses such a size, None where it does not."""
    if _number(template, name) != 0:
        return None
    return f"`{name}` must be above 0 (got {template.get(name)})"


def canonical(text: str) -> str:
    """Return a text that reads the same and has one reading only. Raise ParseError."""
    return rendered(_parsed(text))


def rendered(template: Template) -> str:
    """Return a template's text. Raise ParseError where a value has no text."""
    try:
        return written(template.attributes)
    except UnwritableError as error:
        raise ParseError(str(error)) from None


def read(text: str) -> Template:
    """Return the template of a tenant's text. Raise ParseError."""
    if text.lstrip().startswith("<"):
        raise ParseError('lines like CPU="1" are right, not XML')
    return parse(text, MOST_VALUES)


def _bytes(text: str, _template: Template) -> int:
    return _PARSED * len(text)


_parsed = Remembered(read, _bytes, _MOST_KEPT_BYTES)


def size(text: str) -> dict[str, float]:
    """All that such a VM can use: CPU in percent of a core, memory in MiB."""
    facts = _facts(text)
    return {"cpu": facts.cpu, "memory": facts.memory}


def with_attributes(text: str, attributes: Mapping[str, str]) -> str:
    """The same with these besides."""
    lines = [f'{name}="{value}"' for name, value in attributes.items()]
    return "\n".join([text.rstrip("\n"), *lines])


def named(text: str) -> bool:
    """Whether the VM has a name already."""
    return _facts(text).named


def _read_facts(text: str) -> _Facts:
    """Of a text that was taken before; one that does not parse says nothing."""
    try:
        template = _parsed(text)
    except ParseError:
        template = Template()
    cores = _number(template, "VCPU") or math.ceil(_number(template, "CPU") or 1.0)
    return _Facts(
        cpu=cores * 100.0,
        memory=_number(template, "MEMORY") or 0.0,
        named="NAME" in template.names(),
    )


# Each period asks this of all living platforms: texts are far too large to be kept for that.
_facts = Remembered(_read_facts, lambda _text, _made: _FACTS, _MOST_FACTS_BYTES, digest)


def _number(template: Template, name: str) -> float | None:
    """Return the number from 0 to `MOST` that a template has under a name, None without one."""
    found = _text(template, name)
    if found is None or not _NUMBER.fullmatch(found):
        return None
    number = float(found)
    return number if number <= MOST else None


def _is_beyond(template: Template, name: str) -> bool:
    """Return whether a template has a number under a name, and one that is too large."""
    found = _text(template, name)
    return found is not None and _NUMBER.fullmatch(found) is not None and float(found) > MOST


def _text(template: Template, name: str) -> str | None:
    """Return the one text that a template has under a name, None without one."""
    found = [value for key, value in template.attributes if key == name]
    return found[0] if len(found) == 1 and isinstance(found[0], str) else None
