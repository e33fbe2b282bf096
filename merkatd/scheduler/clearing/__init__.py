"""What limit orders carry from one period to the next."""
