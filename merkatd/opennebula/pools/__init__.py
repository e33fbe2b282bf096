"""OpenNebula's pools, read from XML into rows."""
