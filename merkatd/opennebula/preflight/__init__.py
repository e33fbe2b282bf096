"""What an administrator should know before Merkat acts."""
