"""Algorithm 1, as printed and better used."""
