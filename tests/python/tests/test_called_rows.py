"""Which of Gaudi's operators tests called."""

import pytest
import torch

from openhpu.interface.gaudi_ops import registry
from tests import run
from tests.hpu import called_rows


def test_rows_that_no_call_returned_from_are_missing(tmp_path, monkeypatch, hpu):
    """A call that raises does not count, nor does a second one."""
    file = tmp_path / "called.txt"
    monkeypatch.setattr(registry, "implementation", registry.implementation)
    monkeypatch.setattr(run, "CALLED", file)
    called_rows.note_from_now_on(file)
    rows = {row.name: row for row in registry.rows()}
    identity = registry.implementation(rows["identity"])
    assert torch.equal(identity(torch.ones(2)), torch.ones(2))
    identity(torch.ones(2))
    with pytest.raises(RuntimeError, match="a multiple of 4 entries"):
        registry.implementation(rows["in_place_interleave"])(torch.ones(3))
    assert file.read_text() == "identity\n"
    assert run.rows_without_a_call() == [name for name in rows if name != "identity"]
