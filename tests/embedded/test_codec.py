"""Records survive storage, also those of an earlier version."""

import json

import pytest

from merkatd.base.decoder import from_plain, to_plain
from merkatd.embedded.machines.guest_simulation import GuestLimits

LIMITS = GuestLimits(
    cpu_shares=100, memory_mib=512, pins=((1,), ()), network_kb_s=125, disk_kib_s=7
)


def test_a_record_survives_storage() -> None:
    """Nested records survive too."""
    assert from_plain(GuestLimits, to_plain(LIMITS)) == LIMITS


def test_new_fields_have_defaults_when_older_records_are_read() -> None:
    """A record with unknown extra fields or without required fields is an error."""
    values = json.loads(to_plain(LIMITS))
    older = from_plain(GuestLimits, json.dumps(values[:-2]))
    assert older == GuestLimits(cpu_shares=100, memory_mib=512, pins=((1,), ()))
    with pytest.raises(ValueError, match="zip"):
        from_plain(GuestLimits, json.dumps([*values, 1]))
    with pytest.raises(TypeError):
        from_plain(GuestLimits, json.dumps(values[:1]))
