"""The XML-RPC methods: importing this package registers all of them."""

from __future__ import annotations

from merkatd.embedded.methods import (
    cluster_calls,
    host_calls,
    network_calls,
    pool_calls,
    simulation_calls,
    template_calls,
    user_calls,
    vm_action_calls,
    vm_create_calls,
    vm_edit_calls,
    vm_place_calls,
)

__all__ = [
    "cluster_calls",
    "host_calls",
    "network_calls",
    "pool_calls",
    "simulation_calls",
    "template_calls",
    "user_calls",
    "vm_action_calls",
    "vm_create_calls",
    "vm_edit_calls",
    "vm_place_calls",
]
