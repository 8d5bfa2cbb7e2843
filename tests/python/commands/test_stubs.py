"""The types of the arguments of Gaudi's operators are those of their schemas."""

import importlib

import pytest

from commands import stubs


def test_the_file_is_that_of_the_table(hpu):
    assert stubs.PATH.read_text(encoding="utf-8") == stubs.text(), "run: make docs"


def test_each_class_is_that_of_its_function(hpu):
    """The function of a row takes the class that has its name, so that mypy sees the arguments that it gets."""
    from openhpu.interface.gaudi_ops import registry

    found = 0
    for row in registry.rows():
        family, _, name = row.function.partition(".")
        module = importlib.import_module(f"openhpu.interface.gaudi_ops.{family}")
        if kind := registry.arguments_of(getattr(module, name)):
            assert kind.__name__ == stubs.class_name(row.function), row.name
            found += 1
    assert found > 80


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Tensor", "Tensor"),
        ("Optional[Tensor]", "Tensor | None"),
        ("List[Tensor]", "list[Tensor]"),
        ("Optional[List[int]]", "list[int] | None"),
        ("Optional[ScalarType]", "torch.dtype | None"),
    ],
)
def test_types_of_schemas(kind, expected):
    assert stubs.annotation(kind) == expected


def test_an_unknown_type_is_refused():
    with pytest.raises(KeyError, match="Generator"):
        stubs.annotation("Optional[Generator]")


def test_names_of_classes():
    names = {function: stubs.class_name(function) for function in ("fp8.cast_to_fp8_v2", "indexing.kv_reorder_")}
    assert list(names.values()) == ["CastToFp8V2", "KvReorder_"]
