"""What the period needs of the world, and what it is told."""
