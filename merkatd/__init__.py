"""Merkat: a resource manager that shares a private cloud by price."""
