"""Integration with PyTorch and other libraries: registration, patches, and the registered objects."""
