"""The calls beyond OpenNebula's: limits and use on hosts, guests, faults, failures and power."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from merkatd.embedded.machines.core_division import LimitsError
from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.embedded.machines.host_failures import NETWORK, POWER, HostFailureError
from merkatd.embedded.methods.call import MethodCall, Plain, method
from merkatd.embedded.model.errors import ACTION, AUTHORIZATION, RPC_API, OneRefusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from merkatd.embedded.machines.host_simulation import Usage

_LIMITS = {
    "cpu_shares": int,
    "vcpu_quota": int,
    "global_quota": int,
    "memory_mib": int,
    "pins": list,
    "network_kb_s": int,
    "disk_kib_s": int,
}
_LIMITS_OF_ONE_NUMBER = tuple(name for name in _LIMITS if name != "pins")
_USAGE = ("vm", "host", "cpu_s", "balloon_mib", "used_mib", "run", "dirty_mib_s")
_FAULT = {
    "method": str,
    "vm": int,
    "host": int,
    "lcm": str,
    "probability": (int, float),
    "count": int,
    "code": int,
    "text": str,
    "seconds": (int, float),
}


def _admin(call: MethodCall) -> None:
    if not call.admin:
        raise OneRefusal(
            AUTHORIZATION, f"User [{call.user.id}] : only administrators may call this."
        )


def _struct(value: Plain, fields: dict[str, Any], what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise OneRefusal(RPC_API, f"{what} must be a struct")
    for name, item in value.items():
        if name not in fields:
            raise OneRefusal(
                RPC_API, f"{what}: unknown key {name!r}; known keys: {', '.join(fields)}"
            )
        if not isinstance(item, fields[name]) or isinstance(item, bool):
            raise OneRefusal(RPC_API, f"{what}: {name} has the wrong type (got {item!r})")
    return value


@method("embedded.limits.set", "a")
def limits_set(call: MethodCall, wanted: Plain) -> Plain:
    """Set limits of many guests, {"VM id": {limit: value}}; return the failures by VM."""
    _admin(call)
    if not isinstance(wanted, dict):
        raise OneRefusal(RPC_API, "limits must be a struct of structs by VM id")
    refused: dict[str, Plain] = {}
    for vm_id, limits in wanted.items():
        try:
            _set(call, vm_id, _struct(limits, _LIMITS, f"limits of VM {vm_id}"))
        except LimitsError as error:
            refused[vm_id] = str(error)
    return refused


def _set(call: MethodCall, vm_id: str, limits: dict[str, Any]) -> None:
    if not vm_id.isdecimal():
        raise OneRefusal(RPC_API, f"the key of a VM's limits must be a VM id (got {vm_id!r})")
    pins = limits.get("pins", [])
    if not all(isinstance(pin, list) and all(type(core) is int for core in pin) for pin in pins):
        raise OneRefusal(RPC_API, f"pins of VM {vm_id} must be a list of lists of core numbers")
    call.cloud.guests.set_limits(int(vm_id), **limits)


@method("embedded.limits.read", "?a")
def limits_read(call: MethodCall, vm_ids: Plain = "") -> Plain:
    """Return use and limits of many guests, or of all, by VM id."""
    return {str(usage.vm): _usage(usage) for usage in _read(call, vm_ids)}


@method("embedded.limits.table", "?a")
def limits_table(call: MethodCall, vm_ids: Plain = "") -> str:
    """Return the same as JSON in columns: a struct for each of thousands of guests is slow."""
    guests = _read(call, vm_ids)
    table: dict[str, Any] = {name: [getattr(guest, name) for guest in guests] for name in _USAGE}
    table |= {
        name: [getattr(guest.limits, name) for guest in guests] for name in _LIMITS_OF_ONE_NUMBER
    }
    table["pins"] = {str(usage.vm): usage.limits.pins for usage in guests if usage.limits.pins}
    return json.dumps(table)


@method("embedded.limits.runs", "?a")
def limits_runs(call: MethodCall, host_ids: Plain = "") -> str:
    """Return the domain numbers on these hosts as JSON, by host and VM."""
    _admin(call)
    chosen = [item for item in host_ids if type(item) is int] if isinstance(host_ids, list) else []
    hosts = call.cloud.world.hosts.rows
    there = [host for host in chosen if host not in hosts or not hosts[host].cut]
    return json.dumps({host: call.cloud.guests.runs(host) for host in there})


def _read(call: MethodCall, vm_ids: Plain) -> list[Usage]:
    _admin(call)
    chosen = [item for item in vm_ids if type(item) is int] if isinstance(vm_ids, list) else None
    usages = call.cloud.guests.read(chosen).values()
    return [usage for usage in usages if not call.host(usage.host).cut]


def _usage(usage: Usage) -> Plain:
    limits: dict[str, Plain] = {**asdict(usage.limits)}
    limits["pins"] = [list(pin) for pin in usage.limits.pins]
    dirty: dict[str, Plain] = (
        {} if usage.dirty_mib_s is None else {"dirty_mib_s": usage.dirty_mib_s}
    )
    return {
        "host": usage.host,
        "cpu_s": usage.cpu_s,
        "balloon_mib": usage.balloon_mib,
        "used_mib": usage.used_mib,
        "limits": limits,
        **dirty,
    }


@method("embedded.guest.progress", "i")
def guest_progress(call: MethodCall, vm_id: int) -> Plain:
    """Return the progress and the log of the application in a guest."""
    _admin(call)
    guest = call.cloud.guests.guest(vm_id)
    if guest is None:
        raise OneRefusal(ACTION, f"VM {vm_id} has never run")
    return {
        "work": guest.behaviour.work,
        "done": guest.done,
        "finished": guest.finished,
        "iterations": guest.behaviour.iterations,
        "stage": guest.stage,
        "log": [[at_s, iteration] for at_s, iteration in guest.log],
    }


@method("embedded.guest.service", "i")
def guest_service(call: MethodCall, vm_id: int) -> Plain:
    """Return the present values of the service in a guest, and its requests so far."""
    _admin(call)
    guest = call.cloud.guests.guest(vm_id)
    if guest is None or not guest.behaviour.serves:
        raise OneRefusal(
            ACTION,
            f"VM {vm_id} has no service: EMBEDDED must have valid ARRIVALS and REQUEST_WORK",
        )
    now = asdict(guest.view(call.cloud.world.settings.guests))
    requests = asdict(guest.requests)
    return {**now, **requests, "running": guest.host >= 0, "cores": guest.share}


@method("embedded.guest.dirty", "i")
def guest_dirty(call: MethodCall, vm_id: int) -> float:
    """Return the MiB that a guest writes to its memory in a second now."""
    _admin(call)
    guest = call.cloud.guests.guest(vm_id)
    dirty_mib_s = None if guest is None else guest.dirty_mib_s
    if dirty_mib_s is None:
        raise OneRefusal(
            ACTION, f"VM {vm_id} has no dirty rate: EMBEDDED must have a valid DIRTY_RATE"
        )
    return dirty_mib_s


@method("embedded.guest.off", "i")
def guest_off(call: MethodCall, vm_id: int) -> int:
    """Let a guest end by itself, as after a crash: its VM is found POWEROFF."""
    _admin(call)
    if call.cloud.guests.guest(vm_id) is None:
        raise OneRefusal(ACTION, f"VM {vm_id} has never run")
    call.cloud.guests.turn_off(vm_id)
    return vm_id


@method("embedded.fault.add", "a")
def fault_add(call: MethodCall, wanted: Plain) -> int:
    """Add a fault, given as a struct, and return its number."""
    _admin(call)
    fields = _struct(wanted, {"kind": str, **_FAULT}, "fault")
    names = [kind.value for kind in FaultKind]
    if fields.get("kind") not in names:
        raise OneRefusal(RPC_API, f"fault: kind must be one of {', '.join(names)}")
    return call.cloud.faults.add(Fault(**{**fields, "kind": FaultKind(fields["kind"])}))


@method("embedded.fault.remove", "i")
def fault_remove(call: MethodCall, number: int) -> bool:
    """Remove a fault; return whether it was active."""
    _admin(call)
    return call.cloud.faults.remove(number)


@method("embedded.fault.clear")
def fault_clear(call: MethodCall) -> int:
    """Remove all faults; return their number."""
    _admin(call)
    number = len(call.cloud.faults.in_force())
    call.cloud.faults.clear()
    return number


@method("embedded.fault.list")
def fault_list(call: MethodCall) -> Plain:
    """Return the active faults by number."""
    _admin(call)
    return {
        str(number): {**asdict(fault), "kind": fault.kind.value}
        for number, fault in call.cloud.faults.in_force().items()
    }


@method("embedded.fault.lie", "sii")
def fault_lie(call: MethodCall, kind: str, oid: int, seconds: int) -> int:
    """Show a `vm` or a `host` (or all, -1) in pools unchanged for some seconds."""
    _admin(call)
    world = call.cloud.world
    if kind not in {"vm", "host"}:
        raise OneRefusal(RPC_API, f"kind must be 'vm' or 'host' (got {kind!r})")
    rows = [*world.vms] if kind == "vm" else [*world.hosts]
    chosen = [row for row in rows if oid in {-1, row.id}]
    for row in chosen:
        call.cloud.cache.hold(row, seconds)
    return len(chosen)


@method("embedded.host.down", "i?b")
def host_down(call: MethodCall, host_id: int, crash: bool = True) -> int:
    """Let a host die, or only lose its monitoring."""
    _admin(call)
    call.cloud.failures.host_down(call.host(host_id), crash=crash)
    return host_id


@method("embedded.host.up", "i")
def host_up(call: MethodCall, host_id: int) -> int:
    """Let a host return."""
    _admin(call)
    call.cloud.failures.host_up(call.host(host_id))
    return host_id


@method("embedded.domain.fail", "ss")
def domain_fail(call: MethodCall, kind: str, name: str) -> Plain:
    """Let a `network` or `power` domain or a `host` fail; return the ids of its hosts."""
    _admin(call)
    with _refusals(RPC_API):
        return [*call.cloud.failures.fail_domain(kind, name)]


@method("embedded.domain.repair", "ss")
def domain_repair(call: MethodCall, kind: str, name: str) -> Plain:
    """Repair a domain or a host; return the ids of its hosts."""
    _admin(call)
    with _refusals(RPC_API):
        return [*call.cloud.failures.repair_domain(kind, name)]


@method("embedded.domain.list")
def domain_list(call: MethodCall) -> Plain:
    """Return the failed domains by kind."""
    _admin(call)
    failed: dict[str, Plain] = {}
    for kind in (NETWORK, POWER):
        rows = call.cloud.failures.failed.values()
        failed[kind] = [*sorted(row.name for row in rows if row.kind == kind)]
    return failed


@method("embedded.host.sleep", "i")
def host_sleep(call: MethodCall, host_id: int) -> int:
    """Turn off a host without guests."""
    _admin(call)
    with _refusals(ACTION):
        call.cloud.failures.sleep(call.host(host_id))
    return host_id


@method("embedded.host.wake", "i")
def host_wake(call: MethodCall, host_id: int) -> int:
    """Turn on a host that sleeps."""
    _admin(call)
    with _refusals(ACTION):
        call.cloud.failures.wake(call.host(host_id))
    return host_id


@method("embedded.host.power", "?a")
def host_power(call: MethodCall, host_ids: Plain = "") -> Plain:
    """Return state, watts and energy of these hosts, or of all, by host id."""
    _admin(call)
    chosen = (
        {item for item in host_ids if type(item) is int} if isinstance(host_ids, list) else None
    )
    power = call.cloud.power
    call.cloud.guests.settle()
    return {
        str(host.id): {
            "state": power.row(host).word,
            "watts": power.row(host).watts,
            "energy_wh": power.energy_wh(host),
        }
        for host in call.cloud.world.hosts
        if chosen is None or host.id in chosen
    }


@contextmanager
def _refusals(code: int) -> Iterator[None]:
    try:
        yield
    except HostFailureError as error:
        raise OneRefusal(code, str(error)) from None
