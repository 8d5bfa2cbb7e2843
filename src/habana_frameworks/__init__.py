"""The public names of Gaudi's PyTorch stack. Importing this package loads nothing."""
