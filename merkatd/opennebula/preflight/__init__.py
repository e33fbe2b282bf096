"""Checks of a cloud and a configuration before Merkat acts on the cloud."""
