"""Names that scripts reach through the package, without an import of their own."""

import pytest


@pytest.mark.parametrize("name", ["counters", "dynamo", "events", "expect", "hpex", "hpu", "phase"])
def test_a_script_needs_no_import(script, name):
    code = f"""
    import torch, habana_frameworks.torch, openhpu
    assert openhpu.{name} is getattr(openhpu, "{name}")
    print(openhpu.{name}.__name__)
    """
    assert script(code).out


def test_another_name_is_an_error():
    import openhpu

    with pytest.raises(AttributeError, match=r"module 'openhpu' has no attribute 'no_such_name'$"):
        openhpu.no_such_name  # noqa: B018
    with pytest.raises(AttributeError, match="'compile_step'; use an HPU graph of the whole step"):
        openhpu.compile_step  # noqa: B018
