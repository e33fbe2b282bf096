"""What others build on, as text."""
