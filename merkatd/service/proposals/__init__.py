"""What a caller sees of plans that wait for an approval."""
