"""A script of optimum-habana computes on the CPU, and under GPU migration, what it did on hpu."""

import pytest

from commands import ROOT
from tests.port import computing


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_a_ported_script_computes_the_same(target, tmp_path_factory):
    script = ROOT / "ecosystem" / "optimum_habana" / "scripts" / "gaudi_trainer.py"
    on_hpu = computing.run(script, tmp_path_factory.mktemp("hpu"), PT_HPU_LAZY_MODE="0")
    computing.agree(script, target, on_hpu, tmp_path_factory.mktemp(target))
