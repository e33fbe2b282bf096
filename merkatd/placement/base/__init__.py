"""What every strategy shares, whatever it optimises."""
