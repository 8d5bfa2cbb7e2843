"""Names, order and defaults of the arguments of `torch.ops.hpu` are Gaudi's."""

from pathlib import Path

import torch

PUBLISHED = Path(__file__).with_name("gaudi_arguments.txt").read_text(encoding="utf-8").splitlines()[1:]


def arguments(name):
    """The arguments of an operator as a Python function has them."""
    packet, _, overload = name.partition(".")
    schema = getattr(getattr(torch.ops.hpu, packet), overload or "default")._schema
    found = []
    only_by_name = False
    for argument in schema.arguments:
        if argument.kwarg_only and not only_by_name:
            only_by_name = True
            found.append("*")
        found.append(argument.name + (f"={argument.default_value!r}" if argument.has_default_value() else ""))
    return found


def test_published_arguments(hpu):
    """An operator may have more arguments behind Gaudi's, with defaults, as its later versions have them."""
    for line in PUBLISHED:
        name, _, rest = line.removesuffix(")").partition("(")
        expected = rest.split("; ")
        found = arguments(name)
        assert found[: len(expected)] == expected, name
        assert all(text == "*" or "=" in text for text in found[len(expected) :]), name
