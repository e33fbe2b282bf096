"""The tenants' command `merkat`: prices, bids, VMs, budgets and platforms from any machine.

It calls the daemon only over the tenants' XML-RPC interface, and prints the tables of `merkatd`.
"""
