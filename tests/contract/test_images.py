"""Images, their disks, and the room in their datastores."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.contract.endpoint import SMALL
from tests.contract.ways import DONE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.endpoint import Endpoint
    from tests.contract.merkat import Merkat

SYSTEM, DEFAULT = 0, 1
NOWHERE = 98765
NOT_ALLOCATED = "Error allocating a new image. "
READY, USED = "1", "2"
EMPTY = 'NAME="{}"\nTYPE="DATABLOCK"\nSIZE="{}"\nFORMAT="raw"\n'


def image(endpoint: Endpoint, size_mib: int) -> int:
    """Create an image of this size and wait until it is ready."""
    text = EMPTY.format(endpoint.name(), size_mib)
    oid = int(endpoint.ok("one.image.allocate", text, DEFAULT, True))
    endpoint.until(lambda: state(endpoint, oid) == READY, f"image {oid} is ready")
    return oid


def state(endpoint: Endpoint, oid: int) -> str | None:
    """Return the state of an image."""
    return endpoint.xml("one.image.info", oid).findtext("STATE")


def disk(oid: int) -> str:
    """Return the attribute of a VM that uses the image."""
    return f'DISK=[IMAGE_ID="{oid}"]\n'


@contextmanager
def cloned_in_place(endpoint: Endpoint) -> Iterator[None]:
    """Copy images on their own datastore, as with LVM and Ceph."""
    endpoint.ok("one.datastore.update", DEFAULT, 'TM_MAD="lvm"', 1)
    try:
        yield
    finally:
        endpoint.ok("one.datastore.update", DEFAULT, 'TM_MAD="dummy"\nDISK_TYPE="FILE"', 1)


def test_a_disk_describes_its_image(endpoint: Endpoint) -> None:
    """It names image, datastore, size and clone target; requirements follow."""
    oid = image(endpoint, 300)
    vm = endpoint.new(SMALL + disk(oid))
    shown = endpoint.xml("one.vm.info", vm)
    seen = {row.tag: row.text for row in shown.iterfind("TEMPLATE/DISK/*")}
    name = endpoint.xml("one.image.info", oid).findtext("NAME")
    wanted = {
        "CLONE": "YES", "CLONE_TARGET": "SYSTEM", "CLUSTER_ID": "0", "DATASTORE": "default",
        "DATASTORE_ID": "1", "DISK_ID": "0", "DISK_SNAPSHOT_TOTAL_SIZE": "0", "DRIVER": "raw",
        "FORMAT": "raw", "IMAGE": name, "IMAGE_ID": str(oid), "IMAGE_STATE": USED,
        "LN_TARGET": "NONE", "ORIGINAL_SIZE": "300", "READONLY": "NO", "SAVE": "NO", "SIZE": "300",
        "TARGET": "sda", "TM_MAD": "dummy", "TYPE": "FILE",
    }  # fmt: skip
    assert {key: seen.get(key) for key in wanted} == wanted
    automatic = shown.findtext("TEMPLATE/AUTOMATIC_REQUIREMENTS") or ""
    assert automatic.startswith("(CLUSTER_ID = 0) & !(")
    stores = shown.findtext("TEMPLATE/AUTOMATIC_DS_REQUIREMENTS")
    assert stores == '("CLUSTERS/ID" @> 0)'


def test_an_image_lists_its_vms(endpoint: Endpoint) -> None:
    """It can't be removed while VMs use it, and is ready again afterwards."""
    oid = image(endpoint, 300)
    vm = endpoint.new(SMALL + disk(oid))
    assert state(endpoint, oid) == USED
    shown = endpoint.xml("one.image.info", oid)
    assert [row.text for row in shown.iterfind("VMS/ID")] == [str(vm)]
    assert endpoint.refused("one.image.delete", oid) == (
        2048,
        "[one.image.delete] Cannot delete image. There are 1 VMs using it.",
    )
    endpoint.act(vm, "terminate-hard", DONE)
    endpoint.until(lambda: state(endpoint, oid) == READY, "the image is free")
    endpoint.ok("one.image.delete", oid)
    endpoint.until(lambda: oid not in endpoint.pool("one.imagepool.info", -2, -1, -1), "its end")


@pytest.mark.parametrize(
    ("text", "store", "code", "why"),
    [
        (EMPTY.format("contract-x", 9), SYSTEM, 16384, NOT_ALLOCATED + "New images can only be "
         "allocated in a files or image datastore."),
        (EMPTY.format("contract-x", 9), NOWHERE, 1024, f"Error getting datastore [{NOWHERE}]."),
        ('NAME="contract-x"\nTYPE="DATABLOCK"\n', DEFAULT, 8192,
         "Cannot parse image SIZE: Wrong number or missing SIZE attribute."),
        ('NAME="contract-x"\nTYPE="WHAT"\nSIZE="9"\n', DEFAULT, 16384,
         NOT_ALLOCATED + "Unknown type "),
    ],
)  # fmt: skip
def test_an_invalid_image_is_refused(
    endpoint: Endpoint, text: str, store: int, code: int, why: str
) -> None:
    """The text has the reason."""
    refused = endpoint.refused("one.image.allocate", text, store, True)
    assert refused == (code, f"[one.image.allocate] {why}")


def test_an_image_must_exist(endpoint: Endpoint) -> None:
    """A VM that names a missing image is refused."""
    assert endpoint.refused("one.vm.allocate", SMALL + disk(NOWHERE), False) == (
        8192,
        f"[one.vm.allocate] DISK 0: Image with ID: {NOWHERE} does not exist",
    )


def test_unknown_drivers_are_refused(endpoint: Endpoint) -> None:
    """The datastore keeps its driver."""
    code, text = endpoint.refused("one.datastore.update", DEFAULT, 'TM_MAD="nonsense"', 1)
    assert code == 8192
    assert text.endswith('TM_MAD named "nonsense" is not defined in oned.conf')


def test_image_datastores_must_have_room(endpoint: Endpoint, merkat: Merkat) -> None:
    """A disk cloned on the image datastore must fit there, beside the others."""
    with cloned_in_place(endpoint):
        why = merkat.why(disk(image(endpoint, 2_000_000_000)))
        assert why.startswith("image datastore default: ")
        free = int(endpoint.xml("one.datastore.info", DEFAULT).findtext("FREE_MB") or "")
        large = image(endpoint, free * 2 // 3)
        first, second = (endpoint.new(SMALL + disk(large)) for _ in range(2))
        merkat.period()
        room = "datastore default has no room left in this period: other VMs come first"
        assert [merkat.message(vm) == room for vm in (first, second)] == [False, True]
