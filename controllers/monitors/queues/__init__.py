"""The choice of the adapter for a batch system."""
