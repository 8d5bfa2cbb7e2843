"""Training scripts as a Gaudi user writes them; `python -m examples.demo` runs and compares them."""
