"""Algorithm 1 of the paper, as printed and as an improved search."""
