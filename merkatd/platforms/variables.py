"""What a VM template says of its user, put in before anybody else's name stands under it.

OpenNebula replaces `$USER[SSH_PUBLIC_KEY]` and the like when a VM is made, by what holds of who
makes it. That is the daemon's account here, whose key would be the wrong one, and of which tenants
may not learn anything, least of all `$USER[TEMPLATE]`.
"""

import re
from collections.abc import Iterator
from typing import Final

from merkatd.opennebula.rpc.errors import OneError
from merkatd.opennebula.rpc.xml_elements import BrokenError, Element, one
from merkatd.platforms.asking import Ask
from merkatd.platforms.template import TemplateError
from merkatd.scheduler.base.ports import UnreachableError
from merkatd.syntax import Template as VmTemplate

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
            user = one(str(await ask("one.user.info", _ME)), "USER")
        except (OneError, BrokenError, UnreachableError) as error:
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
