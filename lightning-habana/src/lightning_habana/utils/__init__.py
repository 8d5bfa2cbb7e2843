"""What is known of the devices, and reductions between them."""
