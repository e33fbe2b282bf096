"""How much the controller of a platform may have kept: the bus and the manager go by one number."""

import json
from typing import Any

from merkatd.protocol.platform_messages import MOST_VMS

_MEMORY_BYTES, _MEMORY_BYTES_OF_A_VM = 1 << 18, 240
"""Of JSON: for a VM that bids for four goods the controllers that come with Merkat need 150."""


def longest_memory(vms: int) -> int:
    """How many bytes of JSON the controller of a platform of so many VMs may have kept.

    What is said on the bus is bounded by the same number, which no message needs for itself.
    """
    return _MEMORY_BYTES + vms * _MEMORY_BYTES_OF_A_VM


def check_memory(memory: Any) -> None:
    """Raise ValueError for what is longer than any platform's, or is no JSON.

    The bus has taken no more than a platform of so many VMs needs.
    """
    written = json.dumps(memory, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    size, longest = len(written.encode()), longest_memory(MOST_VMS)
    if size > longest:
        raise ValueError(f"{size} bytes of JSON are more than the {longest} that can be kept")
