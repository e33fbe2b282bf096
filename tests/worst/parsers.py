"""Every parser of tenants' text, with its size limit and its known worst cases."""

from dataclasses import replace
from typing import Any

from twisted.internet.defer import ensureDeferred

from merkatd.currency.credits import parse_month
from merkatd.fleets.vm_template_source import vm_template
from merkatd.fleets.vm_template_text import TemplateError, size, template_problem
from merkatd.opennebula.pools.vm_pool import read_page
from merkatd.opennebula.pools.vm_templates import _wants
from merkatd.opennebula.rpc.xml_elements import BrokenError, UnreadableError
from merkatd.platforms.declarations.template_time import moment_of_text
from merkatd.platforms.lifecycle.template_reader import (
    MAX_TEMPLATE_LENGTH,
    read_template,
)
from merkatd.service.groups import LONGEST_TEMPLATE
from merkatd.web.layout.platform_fields import values_of
from tests.worst.devices import OF_POOLS
from tests.worst.doors import DOORS
from tests.worst.estate import OF_ESTATE
from tests.worst.judging import JUDGING
from tests.worst.messages import BODY, MESSAGES
from tests.worst.monitored import MONITORED
from tests.worst.search import Parser

VM_BYTES = 1 << 19
"""The size of a VM in oned's XML: more than users can write into one."""

_USER = "<USER><ID>3</ID><NAME>ann</NAME><GID>1</GID><GNAME>g</GNAME><TEMPLATE/></USER>"


async def _asked(method: str, *_arguments: Any) -> Any:
    return _USER if method == "one.user.info" else ""


class _Source:
    """A cluster with its own VM template."""

    def __init__(self, text: str) -> None:
        self.template: str | None = text
        self.template_id: int | None = None
        self.template_name: str | None = None


def _read_vm_template(text: str) -> None:
    """Read a VM template as the submission of a platform or a group does."""
    failed: list[Any] = []
    problem = template_problem(text)
    if problem is None:
        size(text)
    asked = ensureDeferred(vm_template("", _Source(text), _asked, admin=False))
    asked.addErrback(failed.append)
    for failure in failed:
        failure.trap(TemplateError)


def _read_vm(text: str) -> None:
    _wants.cache_clear()
    read_page(f"<VM_POOL>{text}</VM_POOL>")


_VM = (
    "<VM><ID>1</ID><UID>3</UID><GID>1</GID><UNAME>ann</UNAME><GNAME>g</GNAME><NAME>v</NAME>"
    "<PERMISSIONS><OWNER_U>1</OWNER_U></PERMISSIONS><STATE>1</STATE><LCM_STATE>0</LCM_STATE>"
    "<RESCHED>0</RESCHED><STIME>1</STIME><ETIME>0</ETIME><DEPLOY_ID/>"
)
_IN_TEMPLATE = (
    f"{_VM}<TEMPLATE><CPU>1</CPU><MEMORY>64</MEMORY>",
    "</TEMPLATE><USER_TEMPLATE/><HISTORY_RECORDS/></VM>",
)
_IN_USER = (
    f"{_VM}<TEMPLATE><CPU>1</CPU><MEMORY>64</MEMORY></TEMPLATE><USER_TEMPLATE>",
    "</USER_TEMPLATE><HISTORY_RECORDS/></VM>",
)
_CLUSTER = ('[[cluster]]\nname = "a"\n', "")

TOML = Parser(
    name="template of a platform",
    read=read_template,
    bytes_=MAX_TEMPLATE_LENGTH,
    words=(
        *("a", "{n}", "a{n}", ".", "=", "=1\n", "\n", "[", "]", "{", "}", ",", '"', "'", '"""'),
        *("'''", "\\", "\\u0041", "#", " ", "1", "1.5", "0x", "_", "[[cluster]]\n", "[a{n}]\n"),
        *("1979-05-27T07:32:00Z", "true", "a.", "nan", "e9", "not_befor{n}=1\n", "\r\n"),
    ),
    frames=(
        ("", ""),
        ("a=[", "]"),
        ("a={", "}"),
        ("[", "a]\n"),
        _CLUSTER,
        ('a="', '"'),
        ('[controller]\nkind="none"\n[controller.parameters]\n', ""),
    ),
    known=(
        ("[" + "a." * 8000 + "a]\n", "b.", "b=1\n"),
        ("[" + "a." * 200 + "a]\n", "b." * 200 + "b=1\n", ""),
        ("", "a.", "a=1\n"),
        ("[a.b.c.d.e.f.g.h.i.j.k]\n", "a.b.c.d.e.f.g.h.i.j.k{n}=1\n", ""),
        ("", "a{n}=1\n", ""),
        ("", "[a{n}]\n", ""),
        ("", "[[cluster]]\n", ""),
        ("[[cluster]]\n", "templat_{n}=1\n", ""),
        ("", "a{n}=" + "[" * 16 + "]" * 16 + "\n", ""),
        ("a=", "[", ""),
        ("a=", "{a=", ""),
        ("a=[", "1,", "]"),
        ("name=0x", "f", ""),
        ("name=", "1", ""),
        ("", "#\n", ""),
        ('a="""', '""', ""),
        ("a='''", "''", ""),
        ('a="""', "\\\n", ""),
        ("", '\\"""x"', ""),
    ),
)
MOMENT = Parser(
    name="moment",
    read=moment_of_text,
    bytes_=BODY,
    words=("1", "0", ":", "-", "T", "Z", ".", "+", "d", "s", " ", "W"),
    known=(("", "1", "d"), ("2026-05-01T09:00:00.", "1", "Z"), ("", " ", "d")),
)
MONTH = Parser(name="month", read=parse_month, bytes_=BODY, words=("1", "-", "0", "+"))
VM_TEMPLATE = Parser(
    name="VM template",
    read=_read_vm_template,
    bytes_=LONGEST_TEMPLATE,
    words=(
        *("A", "{n}", "=", " = ", "\n", "[", "]", ",", '"', "\\", '\\"', "#", " ", "\t", "\r"),
        *("$USER[A]", "$USER[", "$UID", "CPU=1\n", "MEMORY=1\n", "IMAGE_ID", "RAW", "SCHED_DS_"),
        *("MERKAT", "DISK=[A=1]\n", "CONTEXT=[A=1,B=2]\n", "A{n}=1\n", "é", "NAME", "\\\\"),
    ),
    frames=(
        ("", ""),
        ('CPU="1"\nMEMORY="1"\n', ""),
        ("CPU=1\nMEMORY=1\nA=[", "]"),
        ('CPU=1\nMEMORY=1\nA="', '"'),
    ),
    known=(
        ("", "A=1\n", ""),
        ("", "A=\n", ""),
        ("", "A=[]\n", ""),
        ("", " ", ""),
        ("", "\n", ""),
        ("", "#\n", ""),
        ("", "# \n ", "\nX"),
        ("", "A", ""),
        ("", "A ", ""),
        ("A=[", "A=1,", "A"),
        ("A=[", " ", ""),
        ('A="', "\\", ""),
        ('A="', '\\"', ""),
        ("", "$USER[", ""),
        ("", "$USER[A] ", ""),
        ("", "$USER[ ", ""),
        ("", "SCHED_DS_", ""),
        ("", "IMAGE_ID ", ""),
        ("", "IMAGE ", ""),
        ("CPU=1\nMEMORY=1\n", "A=[B=1]\n", ""),
        ("CPU=1\nMEMORY=1\n", "CONTEXT=[B=1]\n", ""),
        ("CPU=1\nMEMORY=1\n", "DISK=[IMAGE_ID={n}]\n", ""),
        ("", "CPU=1 ", ""),
        ("", "NAME ", ""),
    ),
    refuses=(TemplateError, ValueError),
)
FORM = Parser(
    name="form of a platform",
    read=values_of,
    bytes_=MAX_TEMPLATE_LENGTH,
    words=(
        *("CPU", "=", '"', " ", "\t", "1", "A", "{n}", "\n", "VCPU = 1\n", "MEMORY", "#", ","),
        *('CPU = "', '" ', "= =", "\u3000"),
    ),
    frames=(
        ("[[cluster]]\ntemplate = '''\n", "'''\n"),
        ("[[cluster]]\ntemplate = '''\nCPU", "'''\n"),
        ("[[cluster]]\ntemplate = '''\nCPU =", "'''\n"),
    ),
    known=tuple(
        (f"[[cluster]]\ntemplate = '''\n{before}", " ", f"{after}'''\n")
        for before in ("", "CPU", "CPU =", 'CPU = "', 'CPU = "1"')
        for after in ("", "\\", '"x')
    ),
)
LINE_OF_FORM = replace(
    FORM,
    name="line of a form",
    bytes_=700,  # few enough for a test that ends, however slow the reading is
)
VM = Parser(
    name="VM in oned's pool",
    read=_read_vm,
    bytes_=VM_BYTES,
    words=(
        *("<A>1</A>", "<A{n}>1</A{n}>", "<A><B>1</B></A>", "<![CDATA[a]]>", "&amp;", "a", " "),
        *(
            "<MERKAT_A>1</MERKAT_A>",
            "<MERKAT><CPU>1</CPU></MERKAT>",
        ),
        *("<NIC><NETWORK_MODE>auto</NETWORK_MODE><NIC_ID>1</NIC_ID></NIC>", "<A/>"),
        *("<SCHED_ACTION><ACTION>stop</ACTION><TIME>1</TIME></SCHED_ACTION>"),
        *("<DISK><SIZE>1</SIZE></DISK>", "<PCI><VENDOR>1</VENDOR></PCI>", "<!--a-->"),
    ),
    frames=(_IN_TEMPLATE, _IN_USER),
    known=(
        (_IN_USER[0], "<A>1</A>", _IN_USER[1]),
        (_IN_USER[0], "<MERKAT_A{n}>1</MERKAT_A{n}>", _IN_USER[1]),
        (_IN_USER[0] + "<A>", "a", "</A>" + _IN_USER[1]),
        (_IN_USER[0] + "<A>", "&amp;", "</A>" + _IN_USER[1]),
        (_IN_TEMPLATE[0], "<DISK><SIZE>1</SIZE><TYPE>FS</TYPE></DISK>", _IN_TEMPLATE[1]),
        (
            _IN_TEMPLATE[0],
            "<NIC><NETWORK_MODE>auto</NETWORK_MODE><NIC_ID>{n}</NIC_ID></NIC>",
            _IN_TEMPLATE[1],
        ),
        (
            _IN_TEMPLATE[0],
            "<SCHED_ACTION><ACTION>stop</ACTION><TIME>1</TIME></SCHED_ACTION>",
            _IN_TEMPLATE[1],
        ),
        (_IN_TEMPLATE[0], "<PCI><VENDOR>{n}</VENDOR></PCI>", _IN_TEMPLATE[1]),
    ),
    refuses=(BrokenError, UnreadableError),
)

PARSERS = (
    TOML,
    MOMENT,
    MONTH,
    VM_TEMPLATE,
    FORM,
    LINE_OF_FORM,
    *MESSAGES,
    VM,
    *JUDGING,
    *DOORS,
    *OF_POOLS,
    *OF_ESTATE,
    *MONITORED,
)
