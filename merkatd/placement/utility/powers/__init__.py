"""The division of hosts among jobs and services: compiled functions, and the amounts of VMs."""
