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
   of an attribute without parts, the element begins with this attribute, which also stands before
   it. In USER_TEMPLATE that counts only beside what no owner may set: users' own vectors, such as
   USER_INPUTS, may well have names of attributes in them.
4. A comment, or an instruction to a program, swallows as well. OpenNebula writes none.

Of any other VM OpenNebula's own record counts, which it writes before any text of an owner.
"""

from collections.abc import Set as AbstractSet

from merkatd.opennebula.elements import Element, UnreadableError

_CDATA, _CDATA_END = b"<![CDATA[", b"]]>"
_SWALLOWING = (b"<!--", b"<?")
_TEMPLATES = ("TEMPLATE", "USER_TEMPLATE")
_NUMA_NODE = frozenset({"CPUS", "MEMORY", "MEMORY_NODE_ID", "NODE_ID", "TOTAL_CPUS"})
"""Parts of a vector that OpenNebula writes; MEMORY, which stands before it, may be the first."""


_RESTRICTED = "USER_PRIORITY"
"""Of all that is read of USER_TEMPLATE its owner may not set this alone."""
_NONE: AbstractSet[str] = frozenset()


def check(vm: Element, text: bytes) -> None:
    """Raise UnreadableError where owners' texts may have forged parts of a VM.

    `text` is the one that the element was read from.
    """
    if _has_comment(text):
        raise UnreadableError("there is a comment in it")
    for part in vm.iter(*_TEMPLATES):
        if len(part) and part.getparent() is not vm:
            raise UnreadableError(f"{part.tag} stands inside another part")
    for template in vm.iterchildren(*_TEMPLATES):
        _check_template(template)


def _check_template(template: Element) -> None:
    strict = template.tag == "TEMPLATE" or template.find(_RESTRICTED) is not None
    before, last = set[str](), ""
    for child in template:
        name = child.tag
        if name != last and name in before:
            raise UnreadableError(f"{name} goes on after other parts")
        parts = list(child)
        if parts:
            _check_vector(name, parts, before if strict else _NONE)
        before.add(name)
        last = name


def _check_vector(name: str, parts: list[Element], before: AbstractSet[str]) -> None:
    names = [part.tag for part in parts]
    if len(set(names)) < len(names):
        raise UnreadableError(f"{name} has {_again(names)} twice")
    begins_anew = names[0] in before and not _is_numa_node(name, names)
    if begins_anew or any(map(len, parts)):
        raise UnreadableError(f"{name} has other parts inside")


def _is_numa_node(name: str, names: list[str]) -> bool:
    return name == "NUMA_NODE" and _NUMA_NODE.issuperset(names)


def _again(names: list[str]) -> str:
    return next(name for at, name in enumerate(names) if name in names[:at])


def _has_comment(text: bytes) -> bool:
    """Whether there is one outside the texts, or an instruction to a program."""
    if not any(mark in text for mark in _SWALLOWING):
        return False
    at = 0
    while True:
        section = text.find(_CDATA, at)
        until = len(text) if section < 0 else section
        if any(text.find(mark, at, until) >= 0 for mark in _SWALLOWING):
            return True
        if section < 0:
            return False
        end = text.find(_CDATA_END, section)
        if end < 0:
            return False
        at = end + len(_CDATA_END)
