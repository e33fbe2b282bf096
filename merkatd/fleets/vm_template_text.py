"""The text of a VM template: its attributes, sizes and variables, and Merkat's checks of them.

OpenNebula replaces variables like `$USER[SSH_PUBLIC_KEY]` when a VM is created, by attributes of
the user that creates it. Here that may be the daemon's own account: its key would be the wrong one,
and tenants must not learn its attributes, least of all `$USER[TEMPLATE]`. So Merkat replaces these
variables itself, by the tenant's attributes.
"""

import math
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from merkatd.base.bounded_cache import BoundedCache, digest
from merkatd.base.toml_reader import MAX_NUMBER
from merkatd.opennebula.rpc.errors import OneError
from merkatd.opennebula.rpc.xml_elements import BrokenError, Element, only_child
from merkatd.scheduler.base.ports import CloudUnreachableError
from merkatd.syntax import ParseError, Template, UnwritableError, parse, template_text
from merkatd.syntax import Template as VmTemplate

Ask = Callable[..., Awaitable[Any]]
"""An OpenNebula call with a tenant's rights: the method, then the arguments after the session."""


class TemplateError(ValueError):
    """A template that can't be used; each line of the message names a key and what it accepts."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


_SAID: Final = re.compile(r"\$(?:USER\[[ \t]*(\w+)[ \t]*\]|(UID|UNAME|GID|GNAME)(?!\w))", re.ASCII)
_OF_THE_USER: Final = {"UID": "ID", "UNAME": "NAME", "GID": "GID", "GNAME": "GNAME"}
_LEFT: Final = re.compile(r"\$\n*USER\n*\[[^\n]{0,20}", re.IGNORECASE)
"""A variable that was not replaced. OpenNebula ignores newlines in a variable."""
CALLER: Final = -1
"""The id that means the user of the call."""
LONGEST_VALUE: Final = 8192
"""The most characters of a user's attribute: enough for a file of keys."""
LONGEST_TEXT: Final = 32_768
"""The most characters of a whole template after its variables are replaced."""


async def with_own(where: str, template: VmTemplate, ask: Ask, user_id: int = CALLER) -> VmTemplate:
    """Replace the user variables by the attributes of the tenant, by default the caller.

    Raise TemplateError.
    """
    if any(_SAID.search(text) for text in _texts(template)):
        try:
            user = only_child(str(await ask("one.user.info", user_id)), "USER")
        except (OneError, BrokenError, CloudUnreachableError) as error:
            raise TemplateError([f"{where}{error}"]) from None
        template = _replaced(where, template, user)
    left = next((match for text in _texts(template) if (match := _LEFT.search(text))), None)
    if left is not None:
        raise TemplateError(
            [f"{where}{left[0]}: expected $USER[NAME], where NAME is one of your attributes"]
        )
    return template


def _texts(template: VmTemplate) -> Iterator[str]:
    for _, value in template.attributes:
        yield from (value,) if isinstance(value, str) else (text for _, text in value)


def _replaced(where: str, template: VmTemplate, user: Element) -> VmTemplate:
    """Replace the variables. Raise TemplateError before the text exceeds its bound, not after."""
    room = LONGEST_TEXT

    def value(match: re.Match[str]) -> str:
        nonlocal room
        value = _value(user, match)
        if len(value) > LONGEST_VALUE:
            why = f"your attribute must have at most {LONGEST_VALUE} characters (got {len(value)})"
            raise TemplateError([f"{where}{match[0]}: {why}"])
        room -= len(value)
        if room < 0:
            why = f"with your attributes inserted, it has more than {LONGEST_TEXT} characters"
            raise TemplateError([f"{where}{why}"])
        return value

    def own(text: str) -> str:
        return _SAID.sub(value, text)

    return VmTemplate(
        tuple(
            (name, own(value) if isinstance(value, str) else tuple((k, own(v)) for k, v in value))
            for name, value in template.attributes
        )
    )


def _value(user: Element, match: re.Match[str]) -> str:
    """Return the user's value for a variable, empty if the user has no such attribute."""
    if match[2] is not None:
        value = user.findtext(_OF_THE_USER[match[2]])
    elif match[1] == "TEMPLATE":
        return match[0]
    else:
        value = user.findtext(f"TEMPLATE/{match[1].upper()}")
    return value or ""


MOST_VALUES = 1000
"""The most values in the text of a template."""
_OURS = re.compile(r"MERKAT\w*")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_SIZES = ("CPU", "VCPU", "MEMORY")
_SHOWN = 20
_MOST_NAMED = 3
_MOST_KEPT_BYTES = 1 << 24
_PARSED = 20
"""The bytes of a parsed template for each character of its text: 19 for `A=[B=1]` lines."""
_MOST_FACTS_BYTES = 1 << 25
_FACTS = 250
"""The bytes of a text's facts."""


@dataclass(frozen=True, slots=True)
class _Facts:
    """The facts about a text that each period needs."""

    cpu: float
    memory: float
    named: bool


def template_problem(text: str) -> str | None:
    """Return why a text can't be the template of a fleet's VMs, None if it can.

    The text names every problem of the template, separated by semicolons.
    """
    try:
        template = _parsed(text)
        rendered(template)
    except ParseError as error:
        return str(error)
    return "; ".join(_problems(template)) or None


def _problems(template: Template) -> Iterator[str]:
    ours = [name for name in sorted(template.names()) if _OURS.fullmatch(name)]
    if ours:
        is_not = "is not accepted" if len(ours) == 1 else "are not accepted"
        names = ", ".join(name[:_SHOWN] for name in ours[:_MOST_NAMED])
        more = f" and {len(ours) - _MOST_NAMED} more" if len(ours) > _MOST_NAMED else ""
        yield f"{names}{more} {is_not}: give floor, ceiling and market beside the template"
    beyond = [name for name in _SIZES if _is_beyond(template, name)]
    for name in beyond:
        got = _text(template, name) or ""
        shown = repr(got) if len(got) <= _SHOWN else f"{got[:_SHOWN]!r}..."
        yield f"`{name}` must be at most {MAX_NUMBER:g} (got {shown})"
    if "MEMORY" not in beyond and _number(template, "MEMORY") is None:
        yield 'expected one memory size in MiB, for example MEMORY="1024"'
    cores = {"CPU", "VCPU"}
    if not cores & {*beyond} and all(_number(template, name) is None for name in cores):
        yield 'expected a CPU size, for example CPU="1" or VCPU="1"'
    yield from (why for name in _SIZES if (why := _not_above_0(template, name)))


def _not_above_0(template: Template, name: str) -> str | None:
    """Return why OpenNebula refuses a size of 0, None if the size is not 0."""
    if _number(template, name) != 0:
        return None
    return f"`{name}` must be above 0 (got {template.get(name)})"


def canonical(text: str) -> str:
    """Return an unambiguous text of the same template. Raise ParseError."""
    return rendered(_parsed(text))


def rendered(template: Template) -> str:
    """Return a template's text. Raise ParseError if a value can't be written."""
    try:
        return template_text(template.attributes)
    except UnwritableError as error:
        raise ParseError(str(error)) from None


def read(text: str) -> Template:
    """Parse a tenant's text and return the template. Raise ParseError."""
    if text.lstrip().startswith("<"):
        raise ParseError('expected lines like CPU="1", not XML')
    return parse(text, MOST_VALUES)


def _bytes(text: str, _template: Template) -> int:
    return _PARSED * len(text)


_parsed = BoundedCache(read, _bytes, _MOST_KEPT_BYTES)


def size(text: str) -> dict[str, float]:
    """Return the size of such a VM: CPU in percent of a core, memory in MiB."""
    facts = _facts(text)
    return {"cpu": facts.cpu, "memory": facts.memory}


def with_attributes(text: str, attributes: Mapping[str, str]) -> str:
    """Return the text with these attributes appended."""
    lines = [f'{name}="{value}"' for name, value in attributes.items()]
    return "\n".join([text.rstrip("\n"), *lines])


def has_name(text: str) -> bool:
    """Return whether the template names the VM."""
    return _facts(text).named


def _read_facts(text: str) -> _Facts:
    """Return the facts of a text; a text that can't be parsed counts as empty."""
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


# Each period reads the facts of all living platforms. The cache's keys are digests, because the
# texts themselves would take far too much memory.
_facts = BoundedCache(_read_facts, lambda _text, _made: _FACTS, _MOST_FACTS_BYTES, digest)


def _number(template: Template, name: str) -> float | None:
    """Return a template's attribute as a number from 0 to MAX_NUMBER, None if it is none."""
    text = _text(template, name)
    if text is None or not _NUMBER.fullmatch(text):
        return None
    number = float(text)
    return number if number <= MAX_NUMBER else None


def _is_beyond(template: Template, name: str) -> bool:
    """Return whether a template's attribute is a number above MAX_NUMBER."""
    text = _text(template, name)
    return text is not None and _NUMBER.fullmatch(text) is not None and float(text) > MAX_NUMBER


def _text(template: Template, name: str) -> str | None:
    """Return a template's attribute if it occurs exactly once and is a text, else None."""
    values = [value for key, value in template.attributes if key == name]
    return values[0] if len(values) == 1 and isinstance(values[0], str) else None
