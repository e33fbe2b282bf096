"""The traffic of proxies: HAProxy's counters, nginx's access logs, and their sums over a window."""
