"""The life of a VM as tables: the states of each operation, and the states after failures."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

from merkatd.embedded.model.vm_states import Lcm, OneVmState

if TYPE_CHECKING:
    from collections.abc import Mapping


class Effect(Enum):
    """The effects of entering a step besides the change of state."""

    CHARGE = "charge the host of the last history record"
    LEAVE = "release the host before it, and close that record"
    RELEASE = "release every host, and close the last record"
    RETURN = "drop the last record: the VM stays where it was"
    UNDO_RESIZE = "take the template and its charge back"
    FORGET = "begin the guest's work anew"


@dataclass(frozen=True, slots=True)
class OperationStep:
    """One state of an operation, entered after the previous state has taken its time."""

    state: OneVmState
    lcm: Lcm
    effects: tuple[Effect, ...] = ()


def _active(lcm: Lcm, *effects: Effect) -> OperationStep:
    return OperationStep(OneVmState.ACTIVE, lcm, effects)


_RUNNING = _active(Lcm.RUNNING)
_ARRIVED = _active(Lcm.RUNNING, Effect.LEAVE)
_GONE = OperationStep(OneVmState.DONE, Lcm.LCM_INIT, (Effect.RELEASE,))
_PENDING = OperationStep(OneVmState.PENDING, Lcm.LCM_INIT)

OPERATIONS: Mapping[str, tuple[OperationStep, ...]] = MappingProxyType(
    {
        "deploy": (_active(Lcm.PROLOG, Effect.CHARGE), _active(Lcm.BOOT), _RUNNING),
        "deploy-stopped": (
            _active(Lcm.PROLOG_RESUME, Effect.CHARGE),
            _active(Lcm.BOOT_STOPPED),
            _RUNNING,
        ),
        "deploy-undeployed": (
            _active(Lcm.PROLOG_UNDEPLOY, Effect.CHARGE),
            _active(Lcm.BOOT_UNDEPLOY),
            _RUNNING,
        ),
        "migrate-live": (_active(Lcm.MIGRATE, Effect.CHARGE), _ARRIVED),
        "migrate-save": (
            _active(Lcm.SAVE_MIGRATE, Effect.CHARGE),
            _active(Lcm.PROLOG_MIGRATE, Effect.LEAVE),
            _active(Lcm.BOOT_MIGRATE),
            _RUNNING,
        ),
        "migrate-poweroff": (
            _active(Lcm.SAVE_MIGRATE, Effect.CHARGE),
            _active(Lcm.PROLOG_MIGRATE, Effect.LEAVE),
            _active(Lcm.BOOT),
            _RUNNING,
        ),
        "migrate-suspended": (
            _active(Lcm.PROLOG_MIGRATE_SUSPEND, Effect.CHARGE, Effect.LEAVE),
            OperationStep(OneVmState.SUSPENDED, Lcm.LCM_INIT),
        ),
        "migrate-off": (
            _active(Lcm.PROLOG_MIGRATE_POWEROFF, Effect.CHARGE, Effect.LEAVE),
            OperationStep(OneVmState.POWEROFF, Lcm.LCM_INIT),
        ),
        "suspend": (_active(Lcm.SAVE_SUSPEND), OperationStep(OneVmState.SUSPENDED, Lcm.LCM_INIT)),
        "resume-suspended": (_active(Lcm.BOOT_SUSPENDED), _RUNNING),
        "poweroff": (
            _active(Lcm.SHUTDOWN_POWEROFF),
            OperationStep(OneVmState.POWEROFF, Lcm.LCM_INIT),
        ),
        "resume-off": (_active(Lcm.BOOT_POWEROFF), _RUNNING),
        "resume-unknown": (_active(Lcm.BOOT_UNKNOWN), _RUNNING),
        "stop": (
            _active(Lcm.SAVE_STOP),
            _active(Lcm.EPILOG_STOP),
            OperationStep(OneVmState.STOPPED, Lcm.LCM_INIT, (Effect.RELEASE,)),
        ),
        "stop-suspended": (
            _active(Lcm.EPILOG_STOP),
            OperationStep(OneVmState.STOPPED, Lcm.LCM_INIT, (Effect.RELEASE,)),
        ),
        "undeploy": (
            _active(Lcm.SHUTDOWN_UNDEPLOY),
            _active(Lcm.EPILOG_UNDEPLOY),
            OperationStep(OneVmState.UNDEPLOYED, Lcm.LCM_INIT, (Effect.RELEASE,)),
        ),
        "undeploy-off": (
            _active(Lcm.EPILOG_UNDEPLOY),
            OperationStep(OneVmState.UNDEPLOYED, Lcm.LCM_INIT, (Effect.RELEASE,)),
        ),
        "resume-stopped": (_PENDING,),
        "terminate": (_active(Lcm.SHUTDOWN), _active(Lcm.EPILOG), _GONE),
        "terminate-off": (_active(Lcm.EPILOG), _GONE),
        "resize": (_active(Lcm.HOTPLUG_RESIZE), _RUNNING),
        "reconfigure": (_active(Lcm.HOTPLUG), _RUNNING),
        "delete": (_active(Lcm.CLEANUP_DELETE, Effect.RELEASE), _GONE),
        "recreate": (
            _active(Lcm.CLEANUP_RESUBMIT, Effect.RELEASE),
            OperationStep(OneVmState.PENDING, Lcm.LCM_INIT, (Effect.FORGET,)),
        ),
    }
)
"""The steps of each operation; the VM stays in the last state."""

_HELD = {
    Lcm.PROLOG: Lcm.PROLOG_FAILURE,
    Lcm.BOOT: Lcm.BOOT_FAILURE,
    Lcm.PROLOG_RESUME: Lcm.PROLOG_RESUME_FAILURE,
    Lcm.BOOT_STOPPED: Lcm.BOOT_STOPPED_FAILURE,
    Lcm.PROLOG_UNDEPLOY: Lcm.PROLOG_UNDEPLOY_FAILURE,
    Lcm.BOOT_UNDEPLOY: Lcm.BOOT_UNDEPLOY_FAILURE,
    Lcm.PROLOG_MIGRATE: Lcm.PROLOG_MIGRATE_FAILURE,
    Lcm.BOOT_MIGRATE: Lcm.BOOT_MIGRATE_FAILURE,
    Lcm.PROLOG_MIGRATE_POWEROFF: Lcm.PROLOG_MIGRATE_POWEROFF_FAILURE,
    Lcm.PROLOG_MIGRATE_SUSPEND: Lcm.PROLOG_MIGRATE_SUSPEND_FAILURE,
    Lcm.EPILOG: Lcm.EPILOG_FAILURE,
    Lcm.EPILOG_STOP: Lcm.EPILOG_STOP_FAILURE,
    Lcm.EPILOG_UNDEPLOY: Lcm.EPILOG_UNDEPLOY_FAILURE,
}

FAILURE: Mapping[Lcm, OperationStep] = MappingProxyType(
    {
        **{lcm: _active(failure) for lcm, failure in _HELD.items()},
        **dict.fromkeys(
            (
                Lcm.SAVE_STOP,
                Lcm.SAVE_SUSPEND,
                Lcm.SHUTDOWN,
                Lcm.SHUTDOWN_POWEROFF,
                Lcm.SHUTDOWN_UNDEPLOY,
                Lcm.HOTPLUG,
            ),
            _RUNNING,
        ),
        **dict.fromkeys((Lcm.MIGRATE, Lcm.SAVE_MIGRATE), _active(Lcm.RUNNING, Effect.RETURN)),
        Lcm.HOTPLUG_RESIZE: _active(Lcm.RUNNING, Effect.UNDO_RESIZE),
        Lcm.BOOT_SUSPENDED: OperationStep(OneVmState.SUSPENDED, Lcm.LCM_INIT),
        Lcm.BOOT_POWEROFF: OperationStep(OneVmState.POWEROFF, Lcm.LCM_INIT),
        Lcm.BOOT_UNKNOWN: _active(Lcm.UNKNOWN),
    }
)
"""The state of a VM after a failure in a state. From a state of failure it can be retried."""

_ON = frozenset({Lcm.RUNNING, Lcm.UNKNOWN})

_BY_STATE: Mapping[str, Mapping[OneVmState, str]] = MappingProxyType(
    {
        "stop": {OneVmState.SUSPENDED: "stop-suspended"},
        "undeploy": {OneVmState.POWEROFF: "undeploy-off"},
        "resume": {
            OneVmState.STOPPED: "resume-stopped",
            OneVmState.UNDEPLOYED: "resume-stopped",
            OneVmState.SUSPENDED: "resume-suspended",
            OneVmState.POWEROFF: "resume-off",
        },
        "terminate": dict.fromkeys(
            (OneVmState.SUSPENDED, OneVmState.POWEROFF, OneVmState.STOPPED, OneVmState.UNDEPLOYED),
            "terminate-off",
        ),
        "migrate": {OneVmState.SUSPENDED: "migrate-suspended", OneVmState.POWEROFF: "migrate-off"},
        "deploy": {
            OneVmState.PENDING: "deploy",
            OneVmState.HOLD: "deploy",
            OneVmState.STOPPED: "deploy",
            OneVmState.UNDEPLOYED: "deploy",
        },
    }
)

_BY_LCM: Mapping[str, Mapping[Lcm, str]] = MappingProxyType(
    {
        "suspend": {Lcm.RUNNING: "suspend"},
        "stop": {Lcm.RUNNING: "stop"},
        "resume": {Lcm.UNKNOWN: "resume-unknown"},
        "poweroff": dict.fromkeys(_ON, "poweroff"),
        "undeploy": dict.fromkeys(_ON, "undeploy"),
        "terminate": {
            **dict.fromkeys(_ON, "terminate"),
            **dict.fromkeys(_HELD.values(), "terminate-off"),
        },
        "migrate": dict.fromkeys(_ON, "migrate-save"),
        "reboot": {Lcm.RUNNING: "reboot"},
    }
)


def choose(action: str, state: OneVmState, lcm: Lcm) -> str | None:
    """Return the operation of an action in a state; None if the action is not available."""
    if state is OneVmState.ACTIVE:
        return _BY_LCM.get(action, {}).get(lcm)
    return _BY_STATE.get(action, {}).get(state)
