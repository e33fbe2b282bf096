"""A snapshot survives both of its forms, and errors name the invalid part."""

import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.cluster import Snapshot
from merkatd.cluster.snapshot import SnapshotError, UsageHistory
from merkatd.cluster.snapshot_json import dumps, loads
from merkatd.cluster.snapshot_npz import from_npz, to_npz
from tests.clouds import cloud, hosts_table, tangled, vms_table
from tests.cluster.complete_snapshot import complete
from tests.lengths import shorten

MINIMAL: dict[str, Any] = {
    "merkat_snapshot": 1,
    "now_s": 0,
    "period": 1,
    "resources": ["cpu"],
    "markets": [{"name": "m"}],
    "hosts": [{"id": 4, "name": "node", "market": "m", "capacity": {"cpu": 100}}],
    "vms": [{"id": 7, "host": "node", "market": "m", "bid": {"cpu": 1}, "cap": {"cpu": 50}}],
}


@pytest.mark.parametrize("seed", range(30))
def test_any_cloud_survives_both_forms(seed: int) -> None:
    """Writing a snapshot again gives the same text, from either form."""
    text = dumps(tangled(seed))
    assert dumps(loads(text)) == text
    assert dumps(from_npz(to_npz(loads(text)))) == text


def test_every_table_and_column_survives() -> None:
    """Both forms keep also the tables that only later strategies read."""
    text = dumps(complete())
    assert dumps(from_npz(to_npz(loads(text)))) == text


def test_a_handwritten_cloud_needs_only_the_essential_keys() -> None:
    """All other keys have defaults."""
    snapshot = loads(json.dumps(MINIMAL))
    assert snapshot.vms.host.tolist() == [0]
    assert snapshot.vms.movable.tolist() == [True]
    assert np.isnan(snapshot.vms.held).all()
    assert snapshot.vms.shared_disk.tolist() == [True]
    for column in (snapshot.vms.started_s, snapshot.vms.disk_mib, snapshot.hosts.idle_watts):
        assert np.isnan(column).all()
    assert snapshot.failure_rates.kind == ()


def without(compact: bytes, prefixes: tuple[str, ...]) -> bytes:
    """Return a compact snapshot without the arrays whose names begin so."""
    with np.load(io.BytesIO(compact)) as archive:
        kept = {name: archive[name] for name in archive.files if not name.startswith(prefixes)}
    out = io.BytesIO()
    np.savez_compressed(out, **kept)
    return out.getvalue()


def test_compact_files_without_later_columns_are_read() -> None:
    """Files from before these columns, and from before whole tables, get the defaults."""
    later = ("hosts.idle_watts", "hosts.full_watts", "vms.started_s", "vms.disk_mib")
    old = without(to_npz(complete()), (*later, "vms.shared_disk", "failure_rates.", "orders."))
    snapshot = from_npz(old)
    assert np.isnan(snapshot.hosts.full_watts).all()
    assert np.isnan(snapshot.vms.started_s).all()
    assert snapshot.vms.shared_disk.tolist() == [True, True]
    assert (len(snapshot.failure_rates), len(snapshot.orders)) == (0, 0)
    assert dumps(loads(dumps(snapshot))) == dumps(snapshot)


@pytest.mark.parametrize(
    "prefix", ["hosts.", "services.", "vms.bid", "failure_rates.kind", "jobs.goal_s"]
)
def test_compact_files_without_necessary_columns_are_rejected(prefix: str) -> None:
    """A table of which a part is missing is damaged, and so is a file without a first table."""
    with pytest.raises(SnapshotError):
        from_npz(without(to_npz(complete()), (prefix,)))


def test_rows_may_be_in_any_order() -> None:
    """Reading sorts the rows by id."""
    hosts = [{**MINIMAL["hosts"][0], "id": 9, "name": "b"}, MINIMAL["hosts"][0]]
    snapshot = loads(json.dumps(MINIMAL | {"hosts": hosts}))
    assert snapshot.hosts.name == ("node", "b")
    assert snapshot.vms.host.tolist() == [0]


def changed(table: str, **values: Any) -> str:
    """Return the minimal cloud with the only row of a table changed."""
    return json.dumps(MINIMAL | {table: [MINIMAL[table][0] | values]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1"),
        ("[]", "not a snapshot"),
        ('{"merkat_snapshot": 2}', "the version must be 1 (got 2)"),
        (
            json.dumps(MINIMAL | {"x": 1}),
            "snapshot: unknown key 'x': expected one of failure_rates, history,",
        ),
        (json.dumps(MINIMAL | {"resources": []}), "resources"),
        (json.dumps(MINIMAL | {"period": -1}), "(got -1)"),
        (json.dumps(MINIMAL | {"vms": {}}), "vms: must be a list of objects (got {})"),
        (changed("vms", bid={"cpu": -1}), "vms 7, bid.cpu: must be at least 0 (got -1)"),
        (changed("vms", bid={"cpu": "1"}), "vms 7, bid.cpu: must be a number (got '1')"),
        (changed("vms", bid={"cpu": True}), "vms 7, bid.cpu: must be a number (got True)"),
        (changed("vms", bid={"gpu": 1}), "unknown key 'gpu'"),
        (changed("vms", bid={}), "vms 7, bid.cpu: is missing"),
        (changed("vms", bid=None), "vms 7, bid: must be an object with cpu (got None)"),
        (changed("vms", host="other"), "vms 7, host: must name a row of hosts (got 'other')"),
        (changed("vms", state="runing"), "one of pending, running"),
        (changed("vms", cpu=1), "unknown key 'cpu'"),
        (changed("vms", movable=1), "must be true or false"),
        (changed("vms", floor={"cpu": 60}), "the floor of VM 7 must not exceed its cap"),
        (changed("vms", id=2**80), "a whole number"),
        (changed("hosts", capacity={"cpu": 10**400}), "must be a finite number"),
        (changed("hosts", topology="x"), "hosts.topology"),
        (changed("hosts", domains={"power": [1]}), "two whole numbers"),
        (changed("hosts", name=3), "must be a text"),
        ('{"merkat_snapshot": 1, "now_s": NaN}', "NaN is not a JSON number"),
        ('{"merkat_snapshot": 1, "now_s": 1, "now_s": 2}', "(got 'now_s' twice)"),
        ("[" * 100_000, "nested too deeply"),
        (changed("vms", disk_mib="much"), "vms 7, disk_mib: must be a number (got 'much')"),
        (changed("vms", shared_disk=None), "vms 7, shared_disk: must be true or false (got None)"),
        (
            json.dumps(MINIMAL | {"failure_rates": [{"kind": "host", "per_year": 1}] * 2}),
            "failure_rates.kind: names must be unique (got 'host' twice)",
        ),
        (
            json.dumps(MINIMAL | {"hosts": MINIMAL["hosts"] * 2}),
            "hosts.id, row 1: must be greater than the id before (got 4)",
        ),
        (
            json.dumps(MINIMAL | {"history": {"at_s": [1], "vms": [[1, 2], [3]], "hosts": []}}),
            "history.vms",
        ),
    ],
)
def test_errors_name_the_place_and_the_value(text: str, message: str) -> None:
    """The message has the place, the value and the accepted values."""
    with pytest.raises(SnapshotError) as error:
        loads(text)
    assert message in str(error.value)


def test_a_cloud_without_vms_keeps_its_history() -> None:
    """Two observations of hosts without VMs survive."""
    nobody = np.zeros((0, 2))
    history = UsageHistory(np.array([1.0, 2.0]), np.zeros((2, 0, 2)), np.ones((2, 1, 2)))
    hosts = hosts_table(np.array([[100.0, 100.0]]))
    text = dumps(cloud(hosts, vms_table([], nobody, nobody), history=history))
    again = loads(text).history
    assert again is not None
    assert again.vms.shape == (2, 0, 2)
    assert dumps(loads(text)) == text


def read_or_error(read: Callable[[], Snapshot]) -> Snapshot | str:
    """Return the snapshot or the text of its `SnapshotError`; raise anything else."""
    try:
        return read()
    except SnapshotError as error:
        return str(error)


@settings(max_examples=shorten(200, 60))
@given(st.data())
def test_garbage_causes_only_a_clear_error(data: st.DataObject) -> None:
    """Any value anywhere in a snapshot is read or gives a `SnapshotError`."""
    junk = st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
        max_leaves=5,
    )
    table = data.draw(st.sampled_from([*MINIMAL, "jobs", "stages", "requirements", "history"]))
    value: Any = data.draw(junk)
    if table in {"hosts", "vms"} and data.draw(st.booleans()):
        column = data.draw(st.sampled_from(["id", "name", "state", "market", "host", "bid", "cap"]))
        value = [MINIMAL[table][0] | {column: value}]
    text = json.dumps(MINIMAL | {table: value})
    assert isinstance(read_or_error(lambda: loads(text)), Snapshot | str)


@settings(max_examples=shorten(100, 40))
@given(st.binary(max_size=40), st.integers(0, 5000))
def test_damaged_compact_snapshots_are_rejected(noise: bytes, at: int) -> None:
    """Changed bytes give the same snapshot or a clear error."""
    compact = to_npz(tangled(3))
    at %= len(compact)
    damaged = compact[:at] + noise + compact[at + len(noise) :]
    again = read_or_error(lambda: from_npz(damaged))
    assert isinstance(again, str) or len(again.vms) == len(tangled(3).vms)


def test_columns_are_read_only() -> None:
    """Assigning to a column of a snapshot is an error."""
    snapshot = tangled(1)
    with pytest.raises(ValueError, match="read-only"):
        snapshot.vms.bid[0] = 1.0
    with pytest.raises(KeyError):
        snapshot.vm_row(12345)
