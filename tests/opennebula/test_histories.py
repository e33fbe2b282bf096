"""History records of single VMs: few texts are in memory at once, and none is forged."""

from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from merkatd.base.clock import Inline
from merkatd.opennebula.current_state import VmCheck, VmChecks
from merkatd.opennebula.pools.vm_history import read_histories
from merkatd.scheduler.base.ports import GuestRecord, VmChange

REAL = "<HISTORY><SEQ>0</SEQ><HID>3</HID><RSTIME>900</RSTIME><RETIME>1000</RETIME></HISTORY>"
FORGED = "<HISTORY><SEQ>0</SEQ><HID>8</HID><RSTIME>0</RSTIME><RETIME>0</RETIME></HISTORY>"


def text_of(before: str = "") -> str:
    """Return a VM as OpenNebula shows it, after its owner's text."""
    return (
        "<VM><ID>7</ID><STATE>6</STATE><LCM_STATE>0</LCM_STATE><TEMPLATE/><USER_TEMPLATE>"
        f"<A><![CDATA[x]]></A></USER_TEMPLATE>{before}<HISTORY_RECORDS>{REAL}</HISTORY_RECORDS></VM>"
    )


class Server:
    """A server that answers on command."""

    def __init__(self) -> None:
        self.asked: dict[int, Deferred[str]] = {}
        self.most = 0

    async def vm(self, vm: int) -> str:
        """Wait for the text."""
        self.asked[vm] = Deferred()
        self.most = max(self.most, sum(not request.called for request in self.asked.values()))
        return await self.asked[vm]

    def answer(self, text: str) -> None:
        """Answer all requests, including those that follow."""
        while open_ := [request for request in self.asked.values() if not request.called]:
            open_[0].callback(text)


def read(server: Any, vms: list[int], since_s: float = 0.0) -> Deferred[Any]:
    """Return the records of these VMs."""
    return ensureDeferred(read_histories(server, Inline(), Clock(), vms, since_s))


def test_few_texts_are_requested_at_once() -> None:
    """Each may be very long, and only the records are kept."""
    server = Server()
    reading = read(server, list(range(30)))
    assert len(server.asked) <= 8
    server.answer(text_of())
    assert reading.result == {vm: [GuestRecord(0, 900, 1000)] for vm in range(30)}
    assert server.most <= 8


def test_forged_records_are_rejected() -> None:
    """The VM's records are unknown, so it counts as running all the time."""
    server = Server()
    forged = f"<HISTORY_RECORDS>{FORGED}</HISTORY_RECORDS><USER_TEMPLATE><A/></USER_TEMPLATE>"
    reading = read(server, [7])
    server.answer(text_of(forged))
    assert reading.result == {}


def history(*records: tuple[int, int, int]) -> str:
    """A VM with records of these starts, ends and actions."""
    shown = "".join(
        f"<HISTORY><SEQ>{seq}</SEQ><HID>3</HID><RSTIME>{begin}</RSTIME><RETIME>{end}</RETIME>"
        f"<ACTION>{action}</ACTION>{REST}</HISTORY>"
        for seq, (begin, end, action) in enumerate(records)
    )
    return text_of().replace(REAL, shown)


REST = "".join(
    f"<{name}>{1_000_000_000}</{name}>"
    for name in ("STIME", "ETIME", "PSTIME", "PETIME", "ESTIME", "EETIME", "REQUEST_ID")
)
"""Some of what else OpenNebula writes into each record."""
NONE, LIVE, POWEROFF_HARD, ATTACH_NIC, RESIZE, BACKUP = 0, 2, 20, 23, 35, 50
ATTACH_DISK, DETACH_NIC, UPDATE_NIC = 21, 24, 51


@pytest.mark.parametrize(
    ("records", "goes_on"),
    [
        (((900, 950, ATTACH_NIC), (950, 970, BACKUP), (970, 0, NONE)), [False, True, True]),
        (((900, 950, POWEROFF_HARD), (950, 0, NONE)), [False, False]),
        # It was off as its size was changed, and started again within that second.
        (
            ((900, 950, RESIZE), (950, 950, POWEROFF_HARD), (950, 0, NONE)),
            [False, True, False],
        ),
        # A migration failed, or it did not.
        (((900, 950, LIVE), (0, 0, NONE), (950, 0, NONE)), [False, False, True]),
        (((900, 950, LIVE), (950, 960, LIVE), (960, 0, NONE)), [False, False, False]),
        (((900, 940, RESIZE), (950, 950, POWEROFF_HARD), (960, 0, NONE)), [False, False, False]),
    ],
)
def test_a_guest_goes_on_where_its_record_is_divided(
    records: tuple[tuple[int, int, int], ...], goes_on: list[bool]
) -> None:
    """Its VM is changed, or its migration fails; a guest that was off or has moved starts."""
    server = Server()
    reading = read(server, [7])
    server.answer(history(*records))
    assert isinstance(reading.result, dict)
    assert [record.goes_on for record in reading.result[7]] == goes_on


def test_a_record_that_begins_with_another_size_says_so() -> None:
    """This holds even if the record before ended long ago: a VM that is off was resized."""
    server, since_s = Server(), 100_000
    reading = read(server, [7], since_s)
    old = ((900, 950, POWEROFF_HARD), (1_000, 1_100, RESIZE))
    new = ((since_s, since_s, RESIZE), (since_s, since_s, NONE), (since_s + 5, 0, NONE))
    server.answer(history(*old, *new))
    assert isinstance(reading.result, dict)
    shown = [(record.seq, record.change) for record in reading.result[7]]
    assert shown == [(1, None), (2, VmChange.SIZE), (3, VmChange.SIZE), (4, None)]


def test_a_record_that_begins_with_a_device_says_so() -> None:
    """It has no limit there until the next period; a detached device needs none."""
    server = Server()
    reading = read(server, [7])
    actions = (ATTACH_DISK, ATTACH_NIC, DETACH_NIC, UPDATE_NIC, NONE)
    server.answer(history(*((900, 900, action) for action in actions)))
    assert isinstance(reading.result, dict)
    network = VmChange.NETWORK
    assert [record.change for record in reading.result[7]] == [
        None,
        VmChange.DISK,
        network,
        None,
        network,
    ]


def test_a_check_reads_the_host_from_opennebulas_record() -> None:
    """A forged record before OpenNebula's is ignored."""
    server: Any = Server()
    clock = Clock()
    checked = ensureDeferred(VmChecks(server, clock).at(7))
    server.answer(text_of(f"<HISTORY_RECORDS>{FORGED}</HISTORY_RECORDS>"))
    clock.advance(1)
    server.answer(text_of(f"<HISTORY_RECORDS>{FORGED}</HISTORY_RECORDS>"))
    assert checked.result == VmCheck(6, 0, 3)
