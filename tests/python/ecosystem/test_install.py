"""What a lane says that it lacks."""

import pytest

from ecosystem import install
from ecosystem.lanes import LANES


def test_lacks_a_folder_beside(tmp_path, monkeypatch):
    monkeypatch.setattr(install, "ENVIRONMENT", tmp_path)
    (tmp_path / "deepspeed").mkdir()
    with pytest.raises(install.LackingError, match=r"`make \.venv/transformers` installs it"):
        install.install("lightning-2.5", LANES["lightning-2.5"], tmp_path)
