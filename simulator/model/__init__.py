"""What is simulated."""
