"""What strategies share that divide hosts by bids."""
