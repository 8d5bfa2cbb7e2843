"""The error that a wrong request for a prediction raises."""


class PredictError(ValueError):
    """The prediction cannot be made. The text names the file or argument, what was given and what was expected."""


class NeedsValuesError(PredictError):
    """An operator needs the values of a fake tensor."""
