"""Texts of owners that end their sections and go on as XML: whether a VM's parts were forged.

# Note [Texts that forge]

OpenNebula writes owners' texts into CDATA sections as they are. A text with "]]>" ends its section,
and what follows it is XML: `x]]></A></CONTEXT><CPU>0.01</CPU><CONTEXT><A><![CDATA[y` in the context
of a VM with CPU=8 gives its template two elements CPU, the forged one first. OpenNebula itself goes
on charging the host 8. The whole stays XML of a single VM (the server checks that), so no text can
show another VM, but each can show something else of its own: a size, cores of its own (PIN_POLICY),
another tenant's VM group, a history in which it never ran.

So a VM is believed only if its XML can't be anything else than what OpenNebula wrote:

1. What OpenNebula says once is there once.
2. A text in an attribute must begin the same attribute anew before the section's true end comes. So
   no name occurs again after another one stood between, and none twice inside a vector.
3. Two texts may work together: the first begins an element of any name, which swallows all up to
   the second. What it swallows has parts of its own, or it ends TEMPLATE or USER_TEMPLATE; so
   neither stands inside anything, and vectors hold nothing but texts. Where the first text is that
   of an attribute without parts, this attribute is among the element's parts, and also stands
   before it. In USER_TEMPLATE that counts only beside what no owner may set: users' own vectors,
   such as USER_INPUTS, may well have names of attributes in them.
4. A comment, or an instruction to a program, swallows as well; and in a namespace a name is another
   one. OpenNebula writes nothing of the kind, and nothing but a name into any tag.

Of any other VM OpenNebula's own record counts, which it writes before any text of an owner.
"""

import re
from collections.abc import Set as AbstractSet

from merkatd.opennebula.rpc.xml_elements import Element, UnreadableError

_SECTION = re.compile(rb"<!\[CDATA\[.*?\]\]>", re.DOTALL)
_ODD = re.compile(rb"<[!?]|<[^>]*[\s=\"']")
"""Outside the texts: what is no tag, or a tag with more than a name."""
_TEMPLATES = ("TEMPLATE", "USER_TEMPLATE")
_NUMA_NODE = frozenset({"CPUS", "MEMORY", "MEMORY_NODE_ID", "NODE_ID", "TOTAL_CPUS"})
"""Parts of a vector that OpenNebula writes; MEMORY stands before it too."""


_RESTRICTED = "USER_PRIORITY"
"""Of all that is read of USER_TEMPLATE its owner may not set this alone."""
_NONE: AbstractSet[str] = frozenset()
_MOST_CHECKED = 200_000
_CHECKED: set[int] = set()
"""Hashes of what was found well from TEMPLATE on: it changes seldom, and is read in every period.
Python's hashes of bytes are keyed, so that no text is like another on purpose."""


def check(vm: Element, text: bytes) -> None:
    """Raise UnreadableError where owners' texts may have forged parts of a VM.

    `text` is the one that the element was read from.
    """
    at = max(text.find(b"<TEMPLATE>"), 0)
    rest = text[at:]
    _check_tags(text[:at])
    for part in vm.iter(*_TEMPLATES):
        if len(part) and part.getparent() is not vm:
            raise UnreadableError(f"{part.tag} stands inside another part")
    found = hash(rest)
    if found in _CHECKED:
        return
    _check_tags(rest)
    for template in vm.iterchildren(*_TEMPLATES):
        _check_template(template)
    if len(_CHECKED) >= _MOST_CHECKED:
        _CHECKED.clear()
    _CHECKED.add(found)


def _check_tags(text: bytes) -> None:
    if _ODD.search(_SECTION.sub(b"", text)):
        raise UnreadableError("there is more in its XML than texts and tags")


def _check_template(template: Element) -> None:
    strict = template.tag == "TEMPLATE" or template.find(_RESTRICTED) is not None
    before, plain, last = set[str](), set[str](), ""
    for child in template:
        name = child.tag
        if name != last and name in before:
            raise UnreadableError(f"{name} goes on after other parts")
        parts = list(child)
        if parts:
            _check_vector(name, parts, plain if strict else _NONE)
        else:
            plain.add(name)
        before.add(name)
        last = name


def _check_vector(name: str, parts: list[Element], before: AbstractSet[str]) -> None:
    """`before` are the attributes without parts that stand before it."""
    names = [part.tag for part in parts]
    if len(set(names)) < len(names):
        raise UnreadableError(f"{name} has {_again(names)} twice")
    begins_anew = not before.isdisjoint(names) and not _is_numa_node(name, names)
    if begins_anew or any(map(len, parts)):
        raise UnreadableError(f"{name} has other parts inside")


def _is_numa_node(name: str, names: list[str]) -> bool:
    return name == "NUMA_NODE" and _NUMA_NODE.issuperset(names)


def _again(names: list[str]) -> str:
    return next(name for at, name in enumerate(names) if name in names[:at])
