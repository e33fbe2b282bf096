"""What the scheduler keeps."""
