"""Thirteen kernels in the ways in which others write TPC-C, against PyTorch: `python -m tests.tpc.styles`.

They were written from the public documents of TPC-C. `make test` does not build them.
"""
