"""What deciding costs and how good it is, each figure beside its limit."""
