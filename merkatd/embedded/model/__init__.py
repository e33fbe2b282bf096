"""What the cloud holds."""
