"""The command `onegroup`: VMs by the number, which share a spending rate.

It speaks to the daemon over the tenants' XML-RPC alone, as any other program of a tenant's does.
"""
