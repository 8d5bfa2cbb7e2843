"""Lightning on hpu. Each file runs by itself: `python examples/lightning/digits.py`."""
