"""What a platform's template declares: its application, and points in time."""
