"""VM templates: stored by OpenNebula, shown to permitted users, and instantiated as VMs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.contract.endpoint import SMALL
from tests.contract.ways import HOLD, PENDING

if TYPE_CHECKING:
    from tests.contract.endpoint import Endpoint

ALL = (-2, -1, -1)
MORE = 'FOO="bar"\nCONTEXT=[A="b"]\n'
NOBODYS = 98765
USE_BY_GROUP = (1, 1, 0, 1, 0, 0, 0, 0, 0)


def kept(endpoint: Endpoint, session: str = "", text: str = SMALL + MORE) -> tuple[int, str]:
    """Create a template and return its id and name."""
    name = endpoint.name()
    made = endpoint.ok("one.template.allocate", f'NAME="{name}"\n{text}', session=session)
    return made, name


def test_a_template_is_stored_unchanged(endpoint: Endpoint) -> None:
    """Its name is stored separately; only its owner sees it; sizes are not required yet."""
    uid, session = endpoint.user()
    oid, name = kept(endpoint, session, 'CPU="1"\n' + MORE)
    shown = endpoint.xml("one.template.info", oid, session=session)
    assert shown.tag == "VMTEMPLATE"
    assert shown.findtext("NAME") == name
    assert shown.findtext("UID") == str(uid)
    assert shown.findtext("REGTIME", "").isdecimal()
    assert "".join(bit.text or "" for bit in shown.iterfind("PERMISSIONS/*")) == "110000000"
    inside = {child.tag: child.text for child in shown.iterfind("TEMPLATE/*") if not len(child)}
    assert inside == {"CPU": "1", "FOO": "bar"}
    assert shown.findtext("TEMPLATE/CONTEXT/A") == "b"
    assert endpoint.pool("one.templatepool.info", *ALL, session=session).keys() == {oid}


def test_invalid_templates_are_refused(endpoint: Endpoint) -> None:
    """Missing, used and invalid names are refused, and restricted attributes."""
    _, session = endpoint.user()
    oid, name = kept(endpoint, session)
    allocate = "one.template.allocate"
    assert endpoint.refused(allocate, SMALL, session=session) == (
        8192,
        "[one.template.allocate] Invalid NAME, it cannot be empty",
    )
    again = endpoint.refused(allocate, f'NAME="{name}"\n{SMALL}', session=session)
    assert again == (8192, f"[one.template.allocate] NAME is already taken by TEMPLATE {oid}.")
    code, text = endpoint.refused(allocate, 'NAME="a&b"\n', session=session)
    assert (code, "char '&' is not allowed" in text) == (8192, True)
    text = f'NAME="{endpoint.name()}"\nEMULATOR="/x"\n'
    code, text = endpoint.refused(allocate, text, session=session)
    assert code == 512
    assert text.endswith("VM Template includes a restricted attribute EMULATOR.")
    assert endpoint.refused("one.template.info", NOBODYS) == (
        1024,
        f"[one.template.info] Error getting virtual machine template [{NOBODYS}].",
    )


def test_only_permitted_users_see_and_change_it(endpoint: Endpoint) -> None:
    """Its owner may let the group use it but can't give administration rights."""
    _, owner = endpoint.user()
    other_id, other = endpoint.user()
    oid, _ = kept(endpoint, owner)
    forbidden = f"User [{other_id}] : Not authorized to perform"
    assert endpoint.refused("one.template.info", oid, session=other) == (
        512,
        f"[one.template.info] {forbidden} USE TEMPLATE [{oid}].",
    )
    assert oid not in endpoint.pool("one.templatepool.info", *ALL, session=other)
    assert endpoint.ok("one.template.chmod", oid, *USE_BY_GROUP, session=owner) == oid
    assert endpoint.xml("one.template.info", oid, session=other).findtext("ID") == str(oid)
    assert oid in endpoint.pool("one.templatepool.info", *ALL, session=other)
    for method, arguments in (
        ("update", ('CPU="2"', 0)),
        ("chmod", USE_BY_GROUP),
        ("delete", (False,)),
    ):
        code, text = endpoint.refused(f"one.template.{method}", oid, *arguments, session=other)
        assert (code, text.endswith(f"{forbidden} MANAGE TEMPLATE [{oid}].")) == (512, True)
    bits = (-1,) * 8 + (1,)
    code, text = endpoint.refused("one.template.chmod", oid, *bits, session=owner)
    assert (code, text.endswith(f"ADMIN TEMPLATE [{oid}].")) == (512, True)


def test_it_can_be_replaced_extended_renamed_and_removed(endpoint: Endpoint) -> None:
    """An ordinary user can't add a restricted attribute."""
    _, session = endpoint.user()
    oid, _ = kept(endpoint, session)
    assert endpoint.ok("one.template.update", oid, 'FOO="new"', 1, session=session) == oid
    shown = endpoint.xml("one.template.info", oid, session=session)
    assert shown.findtext("TEMPLATE/FOO") == "new"
    assert shown.findtext("TEMPLATE/CONTEXT/A") == "b"
    endpoint.ok("one.template.update", oid, 'CPU="3"', 0, session=session)
    inside = endpoint.xml("one.template.info", oid, session=session).find("TEMPLATE")
    assert inside is not None
    assert [(child.tag, child.text) for child in inside] == [("CPU", "3")]
    assert endpoint.refused("one.template.update", oid, 'CPU="3"', 7, session=session)[0] == 4096
    for kind in (0, 1):
        text = 'EMULATOR="/x"'
        assert endpoint.refused("one.template.update", oid, text, kind, session=session)[0] == 8192
    name = endpoint.name()
    endpoint.ok("one.template.rename", oid, name, session=session)
    shown = endpoint.xml("one.template.info", oid, session=session)
    assert shown.findtext("NAME") == name
    assert endpoint.ok("one.template.delete", oid, False, session=session) == oid
    assert endpoint.refused("one.template.info", oid, session=session)[0] == 1024


def test_vms_are_created_from_it(endpoint: Endpoint) -> None:
    """They get the additional attributes, its name unless another is given, and its id."""
    uid, session = endpoint.user()
    oid, name = kept(endpoint, session)
    first = endpoint.ok("one.template.instantiate", oid, "called", False, "", session=session)
    shown = endpoint.xml("one.vm.info", first, session=session)
    assert shown.findtext("NAME") == "called"
    assert shown.findtext("UID") == str(uid)
    assert shown.findtext("TEMPLATE/TEMPLATE_ID") == str(oid)
    assert shown.findtext("USER_TEMPLATE/FOO") == "bar"
    assert endpoint.state(first) == PENDING
    more = 'MEMORY="96"\nBAR="x"\nFOO="more"\nNAME="unheard"\nCONTEXT=[C="d"]'
    second = endpoint.ok("one.template.instantiate", oid, "", True, more, session=session)
    shown = endpoint.xml("one.vm.info", second, session=session)
    assert shown.findtext("NAME") == f"{name}-{second}"
    assert shown.findtext("TEMPLATE/MEMORY") == "96"
    assert shown.findtext("TEMPLATE/CONTEXT/A") is None
    assert shown.findtext("TEMPLATE/CONTEXT/C") == "d"
    assert shown.findtext("USER_TEMPLATE/FOO") == "more"
    assert shown.findtext("USER_TEMPLATE/BAR") == "x"
    assert endpoint.state(second) == HOLD
    endpoint.ok("one.template.delete", oid, False, session=session)
    assert endpoint.state(first) == PENDING


def test_invalid_instantiations_are_refused(endpoint: Endpoint) -> None:
    """Sizes are missing, attributes are restricted, or the template is not permitted."""
    _, session = endpoint.user()
    bare, _ = kept(endpoint, session, 'MEMORY="64"\n')
    instantiate = "one.template.instantiate"
    code, text = endpoint.refused(instantiate, bare, "", False, "", session=session)
    assert code == 16384
    assert text.endswith("CPU attribute must be a positive float or integer value.")
    small, _ = kept(endpoint, session)
    code, text = endpoint.refused(instantiate, small, "a&b", False, "", session=session)
    assert (code, "Invalid NAME, char '&'" in text) == (16384, True)
    code, text = endpoint.refused(instantiate, small, "", False, 'EMULATOR="x"', session=session)
    assert code == 512
    assert text.endswith("User Template includes a restricted attribute EMULATOR.")
    _, other = endpoint.user()
    assert endpoint.refused(instantiate, small, "", False, "", session=other)[0] == 512
    assert endpoint.refused(instantiate, NOBODYS, "", False, "", session=other)[0] == 1024
