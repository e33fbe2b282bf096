"""The odds of limit orders, from the prices of room that periods record."""
