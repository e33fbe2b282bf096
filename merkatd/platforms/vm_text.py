"""The text of a VM's template, in OpenNebula's words: what it may say, its size, what we add."""

import math
import re
from collections.abc import Mapping

_OURS = re.compile(r"^[ \t]*(MERKAT\w*)[ \t]*=", re.IGNORECASE | re.MULTILINE)
_VALUE = r'[ \t]*=[ \t]*"?([0-9]+(?:\.[0-9]+)?)"?[ \t]*$'


def wrong(text: str) -> str | None:
    """Why this can't be the template of a platform's VMs; None where it can."""
    if text.lstrip().startswith("<"):
        return 'lines like CPU="1" are right, not XML'
    found = _OURS.search(text)
    if found is not None:
        return f"{found[1]} is not for it: floor, ceiling and market stand beside it"
    if _number(text, "MEMORY") is None:
        return 'MEMORY="1024", in MiB, is missing'
    if _number(text, "CPU") is None and _number(text, "VCPU") is None:
        return 'CPU="1" or VCPU="1" is missing'
    return None


def size(text: str) -> dict[str, float]:
    """All that such a VM can use: CPU in percent of a core, memory in MiB."""
    cores = _number(text, "VCPU") or math.ceil(_number(text, "CPU") or 1.0)
    return {"cpu": cores * 100.0, "memory": _number(text, "MEMORY") or 0.0}


def with_attributes(text: str, attributes: Mapping[str, str]) -> str:
    """The same with these besides."""
    lines = [f'{name}="{value}"' for name, value in attributes.items()]
    return "\n".join([text.rstrip("\n"), *lines])


def named(text: str) -> bool:
    """Whether the VM has a name already."""
    return re.search(r"^[ \t]*NAME[ \t]*=", text, re.IGNORECASE | re.MULTILINE) is not None


def _number(text: str, name: str) -> float | None:
    found = re.findall(rf"^[ \t]*{name}{_VALUE}", text, re.IGNORECASE | re.MULTILINE)
    return float(found[-1]) if len(found) == 1 else None
