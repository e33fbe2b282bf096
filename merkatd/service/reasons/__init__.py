"""Why things are as they are: prices, refusals, and the VMs that are served first."""
