"""Texts that tenants write into VM groups, networks and users, as a period reads them."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from merkatd.opennebula.constraints.candidates import groups_of
from merkatd.opennebula.pools.estate_pools import read_networks, read_users, read_vm_groups
from merkatd.opennebula.rpc.xml_elements import BrokenError, UnreadableError
from merkatd.placement.base.hard_constraints import _bonds
from tests.worst.search import Parser

OBJECT_BYTES = 1 << 19
"""The size of an object in oned's XML: more than users can write into one."""

_NAMES = [f"r{number}" for number in range(32)]
_ROLES = "".join(
    f"<ROLE><ID>{number}</ID><NAME>{name}</NAME><POLICY>AFFINED</POLICY></ROLE>"
    for number, name in enumerate(_NAMES)
)
_BEGINS = "<ID>{}</ID><UID>3</UID><GID>1</GID><NAME>g</NAME><PERMISSIONS/>"
_GROUP = f"<VM_GROUP>{_BEGINS.format(1)}<ROLES>{_ROLES}</ROLES><TEMPLATE>"
_NETWORK = f"<VNET>{_BEGINS.format(1)}<CLUSTERS><ID>0</ID></CLUSTERS>"
_USER = "<USER><ID>3</ID><NAME>ann</NAME><GID>1</GID>"
_REFUSES = (BrokenError, UnreadableError)


def _groups(text: str) -> None:
    """Read VM groups as a period does, and build a strategy's rules for VMs of every role."""
    rules = read_vm_groups(f"<VM_GROUP_POOL>{text}</VM_GROUP_POOL>")
    group_rules = groups_of(rules, {rule.id for rule in rules})
    pairs = np.array(group_rules.pairs, dtype=np.int64).reshape(-1, 3)
    snapshot: Any = SimpleNamespace(
        vms=SimpleNamespace(role=np.arange(len(group_rules.roles))),
        roles=SimpleNamespace(policy=group_rules.policy),
        role_pairs=SimpleNamespace(first=pairs[:, 0], second=pairs[:, 1], policy=pairs[:, 2]),
    )
    _bonds(snapshot)


VM_GROUP = Parser(
    name="VM group",
    read=_groups,
    bytes_=OBJECT_BYTES,
    words=(
        *("<AFFINED>", "</AFFINED>", "<ANTI_AFFINED>r1,r2</ANTI_AFFINED>", ",", "r1,", "r{n},"),
        *("<A{n}>1</A{n}>", "<ROLE><ID>{n}</ID><NAME>a{n}</NAME></ROLE>", " ", *_NAMES[:4]),
    ),
    frames=(
        (_GROUP, "</TEMPLATE></VM_GROUP>"),
        (f"<VM_GROUP>{_BEGINS.format(1)}<ROLES>", "</ROLES><TEMPLATE/></VM_GROUP>"),
        (f"{_GROUP}<AFFINED>", "</AFFINED></TEMPLATE></VM_GROUP>"),
    ),
    known=(
        (_GROUP, f"<AFFINED>{','.join(_NAMES)}</AFFINED>", "</TEMPLATE></VM_GROUP>"),
        (
            _GROUP,
            f"<ANTI_AFFINED>{','.join(_NAMES)},{{n}}</ANTI_AFFINED>",
            "</TEMPLATE></VM_GROUP>",
        ),
        (f"{_GROUP}<AFFINED>", "r1,", "</AFFINED></TEMPLATE></VM_GROUP>"),
        (f"{_GROUP}<AFFINED>", "{n},", "</AFFINED></TEMPLATE></VM_GROUP>"),
        (
            f"<VM_GROUP>{_BEGINS.format(1)}<ROLES>",
            "<ROLE><ID>{n}</ID><NAME>a{n}</NAME></ROLE>",
            "</ROLES><TEMPLATE/></VM_GROUP>",
        ),
        (
            f"<VM_GROUP>{_BEGINS.format(1)}<ROLES><ROLE><ID>1</ID><NAME>a</NAME><HOST_AFFINED>",
            "{n},",
            "</HOST_AFFINED></ROLE></ROLES><TEMPLATE/></VM_GROUP>",
        ),
    ),
    refuses=_REFUSES,
)
NETWORK = Parser(
    name="virtual network",
    read=lambda text: read_networks(f"<VNET_POOL>{text}</VNET_POOL>"),
    bytes_=OBJECT_BYTES,
    words=(
        *("<AR><SIZE>1</SIZE></AR>", "<A>1</A>", "<A{n}>1</A{n}>", "<A><B>1</B></A>", "&amp;"),
        *("<ID>{n}</ID>", "<![CDATA[a]]>", " ", "a"),
    ),
    frames=(
        (f"{_NETWORK}<AR_POOL>", "</AR_POOL><TEMPLATE/></VNET>"),
        (f"{_NETWORK}<TEMPLATE>", "</TEMPLATE></VNET>"),
    ),
    known=(
        (f"{_NETWORK}<AR_POOL>", "<AR><SIZE>1</SIZE></AR>", "</AR_POOL><TEMPLATE/></VNET>"),
        (f"{_NETWORK}<TEMPLATE>", "<A>1</A>", "</TEMPLATE></VNET>"),
        (f"{_NETWORK}<TEMPLATE>", "<A{n}>1</A{n}>", "</TEMPLATE></VNET>"),
        (f"{_NETWORK}<TEMPLATE>", "<A><B>1</B></A>", "</TEMPLATE></VNET>"),
    ),
    refuses=_REFUSES,
)
USER = Parser(
    name="user",
    read=lambda text: read_users(f"<USER_POOL>{text}</USER_POOL>"),
    bytes_=OBJECT_BYTES,
    words=("<ID>{n}</ID>", "<A>1</A>", "<A{n}>1</A{n}>", "<A><B>1</B></A>", "&amp;", "a", " "),
    frames=(
        (f"{_USER}<GROUPS>", "</GROUPS></USER>"),
        (f"{_USER}<TEMPLATE>", "</TEMPLATE></USER>"),
    ),
    known=(
        (f"{_USER}<GROUPS>", "<ID>{n}</ID>", "</GROUPS></USER>"),
        (f"{_USER}<TEMPLATE>", "<A>1</A>", "</TEMPLATE></USER>"),
        (f"{_USER}<TEMPLATE>", "<A{n}>1</A{n}>", "</TEMPLATE></USER>"),
    ),
    refuses=_REFUSES,
)
OF_ESTATE = (VM_GROUP, NETWORK, USER)
