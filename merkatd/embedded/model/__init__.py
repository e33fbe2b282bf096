"""The objects of the cloud, their rules and their clock."""
