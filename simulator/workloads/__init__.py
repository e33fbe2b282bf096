"""What is to be run: traces, models, bursts."""

from simulator.workloads.swf import SwfError, SwfJob, read_swf

__all__ = ["SwfError", "SwfJob", "read_swf"]
