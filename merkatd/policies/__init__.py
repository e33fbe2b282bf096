"""How much to bid, and for how many VMs: arithmetic on values, one policy a file.

Amounts are one number a resource, always in the same order; nothing here knows what they are.
A performance is a time (of an iteration, or in a queue): the smaller the better.
"""
