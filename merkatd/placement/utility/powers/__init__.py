"""The division of power among jobs and services: compiled, as the paper does it, as amounts."""
