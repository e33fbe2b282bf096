"""The text of a VM template: attributes, sizes, variables, what we add; why it can't be used.

OpenNebula replaces `$USER[SSH_PUBLIC_KEY]` and the like when a VM is made, by what holds of who
makes it. That is the daemon's account here, whose key would be the wrong one, and of which tenants
may not learn anything, least of all `$USER[TEMPLATE]`.
"""

import math
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from merkatd.base.bounded_cache import Remembered, digest
from merkatd.base.toml_reader import MAX_NUMBER
from merkatd.opennebula.rpc.errors import OneError
from merkatd.opennebula.rpc.xml_elements import BrokenError, Element, only_child
from merkatd.scheduler.base.ports import CloudUnreachableError
from merkatd.syntax import ParseError, Template, UnwritableError, parse, written
from merkatd.syntax import Template as VmTemplate

Ask = Callable[..., Awaitable[Any]]
"""A call of OpenNebula's, in somebody's name: the method and what follows the session."""


class TemplateError(ValueError):
    """A template that can't be used; each line of the message names a key and what is right."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


_SAID: Final = re.compile(r"\$(?:USER\[[ \t]*(\w+)[ \t]*\]|(UID|UNAME|GID|GNAME)(?!\w))", re.ASCII)
_OF_THE_USER: Final = {"UID": "ID", "UNAME": "NAME", "GID": "GID", "GNAME": "GNAME"}
_LEFT: Final = re.compile(r"\$\n*USER\n*\[[^\n]{0,20}", re.IGNORECASE)
"""OpenNebula passes over newlines in a variable."""
_ME: Final = -1
LONGEST_VALUE: Final = 8192
"""Characters of one attribute of a user: room for a file of keys."""
LONGEST_TEXT: Final = 32_768
"""Characters of a whole template once its variables are replaced."""


async def with_own(where: str, template: VmTemplate, ask: Ask) -> VmTemplate:
    """Return the template with what it says of the user who asks. Raise TemplateError."""
    if any(_SAID.search(text) for text in _texts(template)):
        try:
            user = only_child(str(await ask("one.user.info", _ME)), "USER")
        except (OneError, BrokenError, CloudUnreachableError) as error:
            raise TemplateError([f"{where}{error}"]) from None
        template = _replaced(where, template, user)
    left = next((found for text in _texts(template) if (found := _LEFT.search(text))), None)
    if left is not None:
        raise TemplateError(
            [f"{where}{left[0]}: $USER[NAME], with one of your attributes, is right"]
        )
    return template


def _texts(template: VmTemplate) -> Iterator[str]:
    for _, value in template.attributes:
        yield from (value,) if isinstance(value, str) else (text for _, text in value)


def _replaced(where: str, template: VmTemplate, user: Element) -> VmTemplate:
    """Raise TemplateError before the text grows beyond its bound, not afterwards."""
    room = LONGEST_TEXT

    def value(found: re.Match[str]) -> str:
        nonlocal room
        said = _value(user, found)
        if len(said) > LONGEST_VALUE:
            why = f"your attribute has more than {LONGEST_VALUE} characters"
            raise TemplateError([f"{where}{found[0]}: {why}"])
        room -= len(said)
        if room < 0:
            why = f"with your attributes in it, it has more than {LONGEST_TEXT} characters"
            raise TemplateError([f"{where}{why}"])
        return said

    def own(text: str) -> str:
        return _SAID.sub(value, text)

    return VmTemplate(
        tuple(
            (name, own(value) if isinstance(value, str) else tuple((k, own(v)) for k, v in value))
            for name, value in template.attributes
        )
    )


def _value(user: Element, found: re.Match[str]) -> str:
    """What the user is; nothing where the user has no such attribute."""
    if found[2] is not None:
        said = user.findtext(_OF_THE_USER[found[2]])
    elif found[1] == "TEMPLATE":
        return found[0]
    else:
        said = user.findtext(f"TEMPLATE/{found[1].upper()}")
    return said or ""


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


def template_problem(text: str) -> str | None:
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
        return f"`{found}` must be at most {MAX_NUMBER:g} (got {shown})"
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


def has_name(text: str) -> bool:
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
    return number if number <= MAX_NUMBER else None


def _is_beyond(template: Template, name: str) -> bool:
    """Return whether a template has a number under a name, and one that is too large."""
    found = _text(template, name)
    return found is not None and _NUMBER.fullmatch(found) is not None and float(found) > MAX_NUMBER


def _text(template: Template, name: str) -> str | None:
    """Return the one text that a template has under a name, None without one."""
    found = [value for key, value in template.attributes if key == name]
    return found[0] if len(found) == 1 and isinstance(found[0], str) else None
