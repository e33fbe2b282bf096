"""The proportional-share group scheduler: VMs in groups of equal price, one group per host."""

from merkatd.placement.groups.group_strategy import GroupSettings, groups

__all__ = ["GroupSettings", "groups"]
