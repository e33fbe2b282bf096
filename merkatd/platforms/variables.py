"""What a VM template says of its user, put in before anybody else's name stands under it.

OpenNebula replaces `$USER[SSH_PUBLIC_KEY]` and the like when a VM is made, by what holds of who
makes it. That is the daemon's account here, whose key would be the wrong one, and of which tenants
may not learn anything, least of all `$USER[TEMPLATE]`.
"""

import re
from typing import Final

from merkatd.opennebula.elements import BrokenError, Element, one
from merkatd.opennebula.errors import OneError
from merkatd.platforms.asking import Ask
from merkatd.platforms.attributes import escaped
from merkatd.platforms.template import TemplateError
from merkatd.scheduler.ports import UnreachableError

_SAID: Final = re.compile(r"\$(?:USER\[[ \t]*(\w+)[ \t]*\]|(UID|UNAME|GID|GNAME)(?!\w))", re.ASCII)
_OF_THE_USER: Final = {"UID": "ID", "UNAME": "NAME", "GID": "GID", "GNAME": "GNAME"}
_LEFT: Final = re.compile(r"\$USER\[[^\n]{0,20}", re.IGNORECASE)
_ME: Final = -1


async def with_own(where: str, text: str, ask: Ask) -> str:
    """The text with what it says of the user who asks. Raises TemplateError."""
    if _SAID.search(text) is not None:
        try:
            user = one(str(await ask("one.user.info", _ME)), "USER")
        except (OneError, BrokenError, UnreachableError) as error:
            raise TemplateError([f"{where}{error}"]) from None
        text = _SAID.sub(lambda found: _value(user, found), text)
    left = _LEFT.search(text)
    if left is not None:
        raise TemplateError(
            [f"{where}{left[0]}: $USER[NAME], with one of your attributes, is right"]
        )
    return text


def _value(user: Element, found: re.Match[str]) -> str:
    """As it stands between quotes; nothing where the user has no such attribute."""
    if found[2] is not None:
        said = user.findtext(_OF_THE_USER[found[2]])
    elif found[1] == "TEMPLATE":
        return found[0]
    else:
        said = user.findtext(f"TEMPLATE/{found[1].upper()}")
    return escaped(said)
