"""The states that each action leads through, recorded from a real server."""

PENDING, HOLD, STOPPED, SUSPENDED, DONE, OFF, UNDEPLOYED = (
    (1, 0), (2, 0), (4, 0), (5, 0), (6, 0), (8, 0), (9, 0)
)  # fmt: skip
RUNNING = (3, 3)

ACTIONS = [
    ("suspend", RUNNING, [(3, 6), SUSPENDED]),
    ("resume", SUSPENDED, [(3, 21), RUNNING]),
    ("poweroff", RUNNING, [(3, 18), OFF]),
    ("poweroff-hard", RUNNING, [(3, 18), OFF]),
    ("resume", OFF, [(3, 20), RUNNING]),
    ("stop", RUNNING, [(3, 5), (3, 10), STOPPED]),
    ("stop", SUSPENDED, [(3, 10), STOPPED]),
    ("undeploy", RUNNING, [(3, 29), (3, 30), UNDEPLOYED]),
    ("undeploy-hard", RUNNING, [(3, 29), (3, 30), UNDEPLOYED]),
    ("undeploy", OFF, [(3, 30), UNDEPLOYED]),
    ("terminate", RUNNING, [(3, 12), (3, 11), DONE]),
    ("terminate-hard", RUNNING, [(3, 12), (3, 11), DONE]),
    ("terminate", SUSPENDED, [(3, 11), DONE]),
    ("terminate-hard", OFF, [(3, 11), DONE]),
    ("terminate", STOPPED, [(3, 11), DONE]),
    ("terminate", UNDEPLOYED, [(3, 11), DONE]),
]

AT_ONCE = [
    ("hold", PENDING, HOLD),
    ("release", HOLD, PENDING),
    ("resume", STOPPED, PENDING),
    ("resume", UNDEPLOYED, PENDING),
    ("terminate", PENDING, DONE),
    ("terminate-hard", HOLD, DONE),
]
"""If no host is involved, the state changes before the answer."""

DEPLOYS = [
    (PENDING, [(3, 0), (3, 1), (3, 2), RUNNING]),
    (HOLD, [(3, 0), (3, 1), (3, 2), RUNNING]),
    (STOPPED, [(3, 0), (3, 9), (3, 22), RUNNING]),
    (UNDEPLOYED, [(3, 0), (3, 31), (3, 32), RUNNING]),
]

MIGRATIONS = [
    (RUNNING, True, 0, [(3, 4), RUNNING]),
    (RUNNING, False, 0, [(3, 7), (3, 8), (3, 35), RUNNING]),
    (RUNNING, False, 1, [(3, 7), (3, 8), (3, 2), RUNNING]),
    (RUNNING, False, 2, [(3, 7), (3, 8), (3, 2), RUNNING]),
    (SUSPENDED, True, 0, [(3, 45), SUSPENDED]),
    (SUSPENDED, False, 0, [(3, 45), SUSPENDED]),
    (OFF, False, 0, [(3, 43), OFF]),
    (OFF, True, 0, [(3, 43), OFF]),
]
