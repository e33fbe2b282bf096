"""What each VM owes for a period."""
