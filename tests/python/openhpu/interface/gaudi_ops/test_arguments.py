"""Names, order and defaults of the arguments of `torch.ops.hpu` are Gaudi's."""

from pathlib import Path

import torch

PUBLISHED = Path(__file__).with_name("gaudi_arguments.txt").read_text(encoding="utf-8").splitlines()[1:]


def arguments(name):
    """The arguments of an operator as a Python function has them."""
    packet, _, overload = name.partition(".")
    schema = getattr(getattr(torch.ops.hpu, packet), overload or "default")._schema
    found, only_by_name = [], False
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


def test_operators_without_published_arguments(hpu):
    """Those of later versions and of compiled graphs, of which only the callers are public."""
    from openhpu.interface.gaudi_ops.registry import rows

    torch.ops.hpu.cast_to_fp8_v2  # noqa: B018  # defines them
    published = {line.partition("(")[0] for line in PUBLISHED}
    others = {row.name for row in rows()} - published
    packets = {name.partition(".")[0] for name in others}
    assert packets == {
        "block_softmax", "block_softmax_adjustment", "dequantize_nf4", "habana_bernoulli", "habana_multinomial",
        "habana_native_dropout", "habana_rand", "habana_randint", "habana_randn", "habana_randperm", "habana_uniform",
        "mixture_of_experts",
    }  # fmt: skip
