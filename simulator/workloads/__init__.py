"""Workloads: traces, models and bursts of jobs."""

from simulator.workloads.swf import SwfError, SwfJob, read_swf

__all__ = ["SwfError", "SwfJob", "read_swf"]
