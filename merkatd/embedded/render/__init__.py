"""The replies in oned's XML."""
