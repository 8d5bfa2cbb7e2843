"""Where PyTorch and other libraries are met: registration, patches, and what is registered with them."""
