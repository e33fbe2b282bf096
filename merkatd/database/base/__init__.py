"""What all stores stand on."""
