"""What applications need, estimated from their use."""
