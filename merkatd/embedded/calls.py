"""Brings together every module of calls, so that importing this one registers them all."""

from __future__ import annotations

from merkatd.embedded import (
    calls_clusters,
    calls_delete,
    calls_embedded,
    calls_hosts,
    calls_images,
    calls_locks,
    calls_login,
    calls_pools,
    calls_rest,
    calls_template,
    calls_template_instantiate,
    calls_users,
    calls_vm_action,
    calls_vm_allocate,
    calls_vm_edit,
    calls_vm_place,
)

__all__ = [
    "calls_clusters",
    "calls_delete",
    "calls_embedded",
    "calls_hosts",
    "calls_images",
    "calls_locks",
    "calls_login",
    "calls_pools",
    "calls_rest",
    "calls_template",
    "calls_template_instantiate",
    "calls_users",
    "calls_vm_action",
    "calls_vm_allocate",
    "calls_vm_edit",
    "calls_vm_place",
]
