"""The errors of this distribution."""


class BuildError(Exception):
    """A library of kernels can't be built. The message says what is wrong, where, and what to do."""
