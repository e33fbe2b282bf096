"""VM templates of tenants, read and checked with the rights of the tenant.

OpenNebula checks a VM again when the daemon creates it in its owner's name. Errors that OpenNebula
would report then are reported here, at submission, so that the tenant learns of them at once.
Templates are stored as unambiguous text, however the tenant wrote them.
"""

from typing import Final, Protocol

from merkatd.fleets.vm_template_text import (
    CALLER,
    LONGEST_TEXT,
    Ask,
    TemplateError,
    read,
    rendered,
    with_own,
)
from merkatd.opennebula.owner_text_guard import references, why_refused
from merkatd.opennebula.rpc.errors import LongAnswerError, OneError
from merkatd.opennebula.rpc.xml_elements import (
    BrokenError,
    Element,
    children,
    only_child,
    rows,
    whole,
)
from merkatd.scheduler.base.ports import CloudUnreachableError
from merkatd.syntax import Attribute, ParseError
from merkatd.syntax import Template as VmTemplate

_MINE: Final = -3
_ADMINISTRATOR: Final = 0
_EVERYBODY: Final = -2


class TemplateSource(Protocol):
    """The source of a VM template: exactly one of the three properties is set."""

    @property
    def template(self) -> str | None:
        """The template's text."""

    @property
    def template_id(self) -> int | None:
        """The id of a template in OpenNebula."""

    @property
    def template_name(self) -> str | None:
        """The name of a template in OpenNebula."""


async def vm_template(
    where: str, source: TemplateSource, ask: Ask, *, admin: bool, owner: int = CALLER
) -> str:
    """Read and check a VM template, and return its unambiguous text. Raise TemplateError.

    `where` is a prefix for error messages. Templates of administrators (`admin`) are not checked.
    Variables take their values from the account of `owner`, the owner of the future VMs, even if an
    administrator submits the template: the owner can read them in its VMs.
    """
    try:
        text = source.template
        template = await _shown(where, source, ask, owner) if text is None else read(text)
        template = await with_own(f"{where}VM template: ", template, ask, owner)
        if not admin:
            await _check(where, template, ask)
        lines = rendered(template)
    except ParseError as error:
        raise TemplateError([f"{where}VM template: {error}"]) from None
    if len(lines) > LONGEST_TEXT:
        why = f"it must have at most {LONGEST_TEXT} characters (got {len(lines)})"
        raise TemplateError([f"{where}VM template: {why}"])
    return lines


async def _shown(where: str, source: TemplateSource, ask: Ask, owner: int) -> VmTemplate:
    """Read a template that is stored in OpenNebula. Raise TemplateError."""
    what = f"{where}VM template"
    try:
        wanted = source.template_id
        if wanted is None:
            wanted = await template_id_of(source.template_name or "", ask, owner)
        shown = only_child(str(await ask("one.template.info", wanted, False)), "VMTEMPLATE")
        return VmTemplate.of(_attribute(row) for row in children(shown)["TEMPLATE"])
    except (OneError, BrokenError, LookupError, CloudUnreachableError) as error:
        raise TemplateError([f"{what}: {error}"]) from None


def _attribute(row: Element) -> Attribute:
    if len(row):
        return row.tag, tuple((part.tag, part.text or "") for part in row)
    return row.tag, row.text or ""


async def template_id_of(name: str, ask: Ask, owner: int = CALLER) -> int:
    """Return the id of the template with this name: the owner's, oneadmin's, or another user's.

    Raise LookupError, OneError or CloudUnreachableError.

    The pools are read apart. Otherwise any user could block a name with a template that all users
    may use, or all names with a long one.
    """
    number = 0
    for whose in (_MINE if owner == CALLER else owner, _ADMINISTRATOR, _EVERYBODY):
        try:
            pool = str(await ask("one.templatepool.info", whose, -1, -1))
        except LongAnswerError as error:
            raise LookupError(f"{error}; give the template's id instead of its name") from None
        named = [row for row in rows(pool, "VMTEMPLATE_POOL", "VMTEMPLATE") if _is(row, name)]
        if len(named) == 1:
            return _own_id(named[0])
        number = max(number, len(named))
    if not number:
        raise LookupError(f"no template of yours in OpenNebula is named {name!r}")
    raise LookupError(f"{number} templates are named {name!r}, expected 1; give its id instead")


def _is(row: Element, name: str) -> bool:
    return row.findtext("NAME") == name


def _own_id(row: Element) -> int:
    return whole(children(row), "ID")


async def _check(where: str, template: VmTemplate, ask: Ask) -> None:
    """Raise TemplateError if OpenNebula would not let the tenant create such a VM."""
    why = why_refused(template)
    if why is not None:
        raise TemplateError([f"{where}{why}"])
    for method, wanted in sorted(references(template)):
        try:
            await ask(method, wanted, False)
        except (OneError, CloudUnreachableError) as error:
            raise TemplateError([f"{where}{method} {wanted}: {error}"]) from None
