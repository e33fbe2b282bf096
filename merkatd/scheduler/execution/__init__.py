"""The execution of decisions, depending on the mode."""
