"""The kinds and states of steps, by which commands can query them without heavy imports."""

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
