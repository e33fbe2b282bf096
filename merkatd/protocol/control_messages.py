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
)
STATES = ("planned", "sent", "confirmed", "refused", "expired")
