"""The kinds and states of steps, and the sources of bids, for commands without heavy imports."""

from collections.abc import Mapping

KINDS = (
    "create",
    "deploy",
    "migrate",
    "suspend",
    "resume",
    "stop",
    "terminate",
    "limit",
    "pin",
    "balloon",
    "throttle",
    "sleep",
    "wake",
)
ANY_ORDER = "order"
ORDER_KINDS = ("pause", "resume", "drain", "undrain", "mode", ANY_ORDER)
"""The kinds of administrators' orders; the last means all of them."""
ON_HOSTS = ("sleep", "wake")
"""The kinds of steps on hosts instead of VMs."""
STATES = ("planned", "sent", "confirmed", "refused", "expired")
BID_SOURCES: Mapping[str, str] = {
    "template": "the VM's template",
    "xmlrpc": "a command or a program",
    "controller": "its platform's controller",
    "default": "the market's default: the VM has no bid of its own",
}
"""What people read of the source of a bid."""
