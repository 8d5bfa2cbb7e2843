"""A search for the parameters of a model."""

from collections.abc import Callable, Mapping


def search(
    start: Mapping[str, float], largest: Mapping[str, float], loss: Callable[[dict[str, float]], float]
) -> dict[str, float]:
    """The values with the least loss that rounds of a search along each of them find; none is above its `largest`."""
    values = dict(start)
    best = loss(values)
    width = 0.3
    while width > 0.005:
        improved = False
        for key in values:
            for factor in (1 - width, 1 + width):
                tried = {**values, key: min(values[key] * factor, largest[key])}
                if (found := loss(tried)) < best - 1e-9:
                    best = found
                    values = tried
                    improved = True
        width = width if improved else width / 2
    return values
