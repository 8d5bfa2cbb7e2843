"""The error that a wrong request for a port raises."""


class PortError(ValueError):
    """Nothing was ported. The text names the file or argument, what was given and what was expected."""
