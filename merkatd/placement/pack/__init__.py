"""Strategy `pack`: few busy hosts instead of many idle ones."""
