"""The error that a wrong request for a recording or a replay raises."""


class RecordError(ValueError):
    """Nothing was recorded or replayed. The text names the file or argument, what was given and what was expected."""
