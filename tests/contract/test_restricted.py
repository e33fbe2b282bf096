"""Attributes that ordinary users may not set in VMs, however they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contract.endpoint import SMALL

if TYPE_CHECKING:
    from tests.contract.endpoint import Endpoint

APPEND, REPLACE = 1, 0
HIDDEN = [
    ('RAW=[DATA="x"]', "DATA"), ('RAW\n=[DATA="x"]', "DATA"), ('RAW # x\n =[DATA="x"]', "DATA"),
    ("raw\t# [\n#]\n= [data=x]", "DATA"), ('A="x" RAW=[DATA="x"]', "DATA"),
    ('! RAW=[DATA="x"]', "DATA"), ('RAW=[A="1",\nDATA="x"]', "DATA"),
    ('RAW=[A="1"] RAW=[DATA="x"]', "DATA"), ("EMULATOR=x", "EMULATOR"),
    ('A="y" EMULATOR\n=x', "EMULATOR"), ('CONTEXT=[FILES="/x"]', "FILES"), ('PCI="x"', "PCI"),
    ('NIC=[NETWORK_MODE="auto",MAC="02:00:00:00:00:01"]', "MAC"),
    ('DISK=[SIZE=1,TOTAL_IOPS_SEC="9"]', "TOTAL_IOPS_SEC"),
    ('TOPOLOGY=[PIN_POLICY="CORE"]', "PIN_POLICY"), ("MEMORY_COST=0", "MEMORY_COST"),
    ('DISK=[SIZE=1,ORIGINAL_SIZE=1]', "ORIGINAL_SIZE"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "named"), HIDDEN)
def test_no_notation_hides_a_restricted_attribute(
    endpoint: Endpoint, text: str, named: str
) -> None:
    """An ordinary user is refused, at any position in the template."""
    user, ann = endpoint.user()
    for template in (f"{SMALL}{text}\n", f"{text}\n{SMALL}"):
        assert endpoint.refused("one.vm.allocate", template, False, session=ann) == (
            512,
            (
                f"[one.vm.allocate] User [{user}] : VM Template includes a restricted attribute"
                f" {named}."
            ),
        )


@pytest.mark.parametrize("text", ['PCI=[CLASS="0300"]', 'RAWDATA="x"', 'NOTE="RAW=[DATA=1]"'])
def test_similar_attributes_are_not_restricted(endpoint: Endpoint, text: str) -> None:
    """They are a vector listed only by name, another name, or a text in quotes."""
    _, ann = endpoint.user()
    assert endpoint.new(f"{SMALL}{text}\n", session=ann) >= 0


@pytest.mark.parametrize(("text", "named"), [("EMULATOR=x", "EMULATOR"), ('RAW=[DATA="x"]', "RAW")])
def test_changes_of_restricted_attributes_are_refused(
    endpoint: Endpoint, text: str, named: str
) -> None:
    """This holds for additions and replacements; the same value is no change."""
    _, ann = endpoint.user()
    vm = endpoint.new(session=ann)
    for kind, message in (
        (APPEND, "User Template includes a restricted attribute"),
        (REPLACE, "Tried to change restricted attribute:"),
    ):
        assert endpoint.refused("one.vm.update", vm, text, kind, session=ann) == (
            8192,
            f"[one.vm.update] Cannot update template. {message} {named}",
        )
    endpoint.ok("one.vm.update", vm, text, APPEND)
    endpoint.ok("one.vm.update", vm, text, APPEND, session=ann)
    endpoint.ok("one.vm.update", vm, f'{text}\nOTHER="1"', REPLACE, session=ann)


def test_replacing_a_template_respects_restricted_attributes(
    endpoint: Endpoint,
) -> None:
    """A single attribute stays; a restricted vector blocks the replacement."""
    _, ann = endpoint.user()
    vm = endpoint.new(session=ann)
    endpoint.ok("one.vm.update", vm, "EMULATOR=x", APPEND)
    endpoint.ok("one.vm.update", vm, 'OTHER="1"', REPLACE, session=ann)
    assert endpoint.xml("one.vm.info", vm).findtext("USER_TEMPLATE/EMULATOR") == "x"
    endpoint.ok("one.vm.update", vm, 'RAW=[DATA="x"]', APPEND)
    assert endpoint.refused("one.vm.update", vm, 'OTHER="2"', REPLACE, session=ann)[0] == 8192


def test_an_administrators_template_may_contain_them(endpoint: Endpoint) -> None:
    """Users create VMs from it but can't change restricted attributes."""
    text = f'{SMALL}NAME="{endpoint.name()}"\nCONTEXT=[FILES="x"]\nEMULATOR=e\n'
    template = endpoint.ok("one.template.allocate", text)
    endpoint.ok("one.template.chmod", template, -1, -1, -1, -1, -1, -1, 1, -1, -1, False)
    user, ann = endpoint.user()
    for more in ("", "NOTE=1", 'CONTEXT=[FILES="x"]', "EMULATOR=e"):
        assert endpoint.ok("one.template.instantiate", template, "", True, more, session=ann) >= 0
    for more, named in (('CONTEXT=[A="x"]', "CONTEXT"), ("EMULATOR=x", "EMULATOR")):
        refusal = endpoint.refused(
            "one.template.instantiate", template, "", True, more, session=ann
        )
        assert refusal == (
            512,
            (
                f"[one.template.instantiate] User [{user}] : User Template includes a restricted"
                f" attribute {named}."
            ),
        )


@pytest.mark.parametrize("written", ["{}", " {}", "+{}", "000000000{}"])
def test_no_notation_hides_another_users_objects(endpoint: Endpoint, written: str) -> None:
    """The right to use images and VM groups comes from their owners."""
    things = {
        'DISK=[IMAGE_ID="{}"]': _image(endpoint),
        'VMGROUP=[VMGROUP_ID="{}",ROLE="a"]': endpoint.ok(
            "one.vmgroup.allocate", f'NAME="{endpoint.name()}"\nROLE=[NAME="a"]'
        ),
    }
    _, ann = endpoint.user()
    for text, oid in things.items():
        template = SMALL + text.format(written.format(oid))
        code, why = endpoint.refused("one.vm.allocate", template, False, session=ann)
        assert (code, "Not authorized to perform USE" in why) == (512, True), (template, why)


def _image(endpoint: Endpoint) -> int:
    text = f'NAME="{endpoint.name()}"\nPATH="/dev/null"\nSIZE=1\nTYPE="OS"'
    return int(endpoint.ok("one.image.allocate", text, 1))
