"""What is done with a decision, by mode."""
