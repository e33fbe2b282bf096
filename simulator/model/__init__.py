"""The model of the simulated cloud."""
