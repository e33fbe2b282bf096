"""The size limit of a controller's stored memory, shared by the bus and the manager."""

import json
from typing import Any

from merkatd.protocol.platform_messages import MOST_VMS

_MEMORY_BYTES, _MEMORY_BYTES_OF_A_VM = 1 << 18, 240
"""Bytes of JSON. The built-in controllers need 150 for each VM that bids for four goods."""


def longest_memory(vms: int) -> int:
    """Return how many bytes of JSON the controller of a platform of `vms` VMs may store.

    Messages on the bus have the same bound, as no other message needs to be longer.
    """
    return _MEMORY_BYTES + vms * _MEMORY_BYTES_OF_A_VM


def check_memory(memory: Any) -> None:
    """Raise ValueError for a memory that is not valid JSON or exceeds the limit of any platform.

    The bus has already checked the limit of the platform's own number of VMs.
    """
    written = json.dumps(memory, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    size, longest = len(written.encode()), longest_memory(MOST_VMS)
    if size > longest:
        raise ValueError(f"a memory must have at most {longest} bytes of JSON (got {size})")
