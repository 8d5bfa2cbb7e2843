"""Data of the devices, and reductions between them."""
