"""Policies of controllers: how much to bid, and for how many VMs; and what applications need.

Arithmetic, one policy a file.

Amounts are one number per resource, always in the same order; policies don't know the resources.
A performance is a time (of an iteration, or in a queue): smaller is better.
"""
