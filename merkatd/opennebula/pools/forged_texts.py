"""Detection of forged parts of a VM: owners' texts that end their section and continue as XML.

# Note [Texts that forge]

OpenNebula writes owners' texts into CDATA sections without escaping. A text with "]]>" ends its
section, and the rest of it is XML. Example: a VM with CPU=8 has an attribute A in its context with
the text `x]]></A></CONTEXT><CPU>0.01</CPU><CONTEXT><A><![CDATA[y`. Its template then has two
elements CPU, the forged 0.01 before the true 8, while OpenNebula counts 8 cores on the host.
The server checks that the whole remains XML of a single VM. So a text can't forge another VM, but
it can forge other properties of its own VM: the size, dedicated cores (PIN_POLICY), another
tenant's VM group, or a history in which the VM never ran.

So the daemon trusts a VM's XML only if no text can have forged a part of it. The rules:

1. Parts that OpenNebula writes once occur once.
2. A text that ends its attribute must begin the same attribute again before the true end of its
   section. So no name occurs again after a different one, and no name occurs twice in a vector.
3. Two texts may work together: the first begins an element of any name, which swallows everything
   up to the second. The swallowed part contains elements with parts, or the end of TEMPLATE or
   USER_TEMPLATE. So neither of these is inside another element, and vectors contain only texts. If
   the first text is in an attribute without parts, this attribute occurs before the element and
   among its parts. So a vector has no part with the name of an earlier attribute without parts. In
   USER_TEMPLATE this applies only if an attribute occurs that owners may not set, because users'
   own vectors, such as USER_INPUTS, may have parts with names of attributes.
4. Comments and processing instructions can swallow parts too, and a namespace changes a name.
   OpenNebula writes neither, and its tags contain only a name.

`check` applies the rules to each VM that is read. For VMs that break one, such as the example, the
daemon uses OpenNebula's own record, which precedes all texts of an owner.
"""

import re
from collections.abc import Set as AbstractSet

from merkatd.opennebula.rpc.xml_elements import Element, UnreadableError

_SECTION = re.compile(rb"<!\[CDATA\[.*?\]\]>", re.DOTALL)
_ODD = re.compile(rb"<[!?]|<[^>]*[\s=\"']")
"""Outside of texts: markup other than a tag, or a tag with more than a name."""
_OF_ODD_TAGS = b"!? \t\n\r\f\v=\"'"
"""Odd markup contains at least one of these. Most texts contain none."""
_TEMPLATES = ("TEMPLATE", "USER_TEMPLATE")
_NUMA_NODE = frozenset({"CPUS", "MEMORY", "MEMORY_NODE_ID", "NODE_ID", "TOTAL_CPUS"})
"""Parts of the vector NUMA_NODE, which OpenNebula writes after an attribute MEMORY."""


_RESTRICTED = "USER_PRIORITY"
"""The only attribute read from USER_TEMPLATE that its owner may not set."""
_NONE: AbstractSet[str] = frozenset()
_LONGEST_NAME = 40
"""The most characters of an owner's name in a reason, which the log repeats in each period."""
_MOST_CHECKED = 200_000
_CHECKED: set[int] = set()
"""Hashes of texts from TEMPLATE on that passed the check: they change seldom, and are read in every
period. Python's hashes of bytes are keyed, so an owner can't construct a collision."""


def check(vm: Element, text: bytes) -> None:
    """Raise UnreadableError if owners' texts may have forged parts of a VM.

    `text` is the text from which the element was parsed.
    """
    at = max(text.find(b"<TEMPLATE>"), 0)
    rest = text[at:]
    _check_tags(text[:at])
    for part in vm.iter(*_TEMPLATES):
        if len(part) and part.getparent() is not vm:
            raise UnreadableError(f"{part.tag} is inside another part")
    fingerprint = hash(rest)
    if fingerprint in _CHECKED:
        return
    _check_tags(rest)
    for template in vm.iterchildren(*_TEMPLATES):
        _check_template(template)
    if len(_CHECKED) >= _MOST_CHECKED:
        _CHECKED.clear()
    _CHECKED.add(fingerprint)


def _check_tags(text: bytes) -> None:
    if len(text.translate(None, _OF_ODD_TAGS)) == len(text):
        return
    if _ODD.search(_SECTION.sub(b"", text)):
        raise UnreadableError("its XML contains more than tags and texts")


def _check_template(template: Element) -> None:
    strict = template.tag == "TEMPLATE" or template.find(_RESTRICTED) is not None
    before, plain, last = set[str](), set[str](), ""
    for child in template:
        name = child.tag
        if name != last and name in before:
            raise UnreadableError(f"{_shown(name)} occurs again after other parts")
        parts = list(child)
        if parts:
            _check_vector(name, parts, plain if strict else _NONE)
        else:
            plain.add(name)
        before.add(name)
        last = name


def _check_vector(name: str, parts: list[Element], before: AbstractSet[str]) -> None:
    """Check a vector; `before` are the names of earlier attributes without parts."""
    names = [part.tag for part in parts]
    if len(set(names)) < len(names):
        raise UnreadableError(f"{_shown(name)} contains {_shown(_again(names))} twice")
    begins_anew = not before.isdisjoint(names) and not _is_numa_node(name, names)
    if begins_anew or any(map(len, parts)):
        raise UnreadableError(f"{_shown(name)} contains other parts")


def _is_numa_node(name: str, names: list[str]) -> bool:
    return name == "NUMA_NODE" and _NUMA_NODE.issuperset(names)


def _again(names: list[str]) -> str:
    return next(name for at, name in enumerate(names) if name in names[:at])


def _shown(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..."
