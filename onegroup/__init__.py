"""The command `onegroup`: groups of VMs that share a spending rate.

It calls the daemon only over the tenants' XML-RPC interface, like any other program of a tenant.
"""
