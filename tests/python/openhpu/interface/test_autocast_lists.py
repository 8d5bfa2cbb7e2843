from pathlib import Path

import pytest
import torch

from openhpu import settings
from openhpu.interface import autocast_lists


def test_policies(hpu):
    x = torch.ones(4, 4, device="hpu")
    low = x.bfloat16()
    with torch.autocast("hpu", dtype=torch.bfloat16):
        assert torch.mm(x, x).dtype == torch.bfloat16
        assert torch.nn.functional.linear(x, low).dtype == torch.bfloat16
        assert torch.log(low).dtype == torch.float32
        assert (x + low).dtype == torch.float32
        assert torch.cat([x, low]).dtype == torch.float32
        assert torch.relu(low).dtype == torch.bfloat16
    assert torch.mm(x, x).dtype == torch.float32


def test_no_operator_in_two_of_a_policys_own_lists():
    for names in (autocast_lists.LOWER_PRECISION, autocast_lists.FP32, autocast_lists.PROMOTE):
        assert len(set(names)) == len(names)
    assert not set(autocast_lists.LOWER_PRECISION) & set(autocast_lists.FP32)


def test_reading_a_list(tmp_path):
    file = tmp_path / "ops.txt"
    file.write_text("# mine\nmatmul\n\n  softmax  # and this\ntruediv\n")
    assert autocast_lists.read_list("V", file) == ("matmul", "softmax", "true_divide")


def test_errors_of_a_list_name_file_and_line(tmp_path):
    file = tmp_path / "ops.txt"
    file.write_text("matmul\nadd.Tensor\n")
    with pytest.raises(settings.SettingError, match=r"ops.txt, line 2: 'add.Tensor' is not the name of an operator"):
        autocast_lists.read_list("V", file)
    with pytest.raises(settings.SettingError, match="V: cannot read"):
        autocast_lists.read_list("V", Path(tmp_path / "missing.txt"))


def test_a_file_replaces_the_list_and_wins(script, tmp_path):
    (tmp_path / "low.txt").write_text("log\nno_such_operator\n")
    (tmp_path / "full.txt").write_text("relu\n")
    result = script(
        """
        import habana_frameworks.torch as ht, torch
        x = torch.ones(4, 4, device="hpu")
        with torch.autocast("hpu"):
            print(torch.log(x).dtype, torch.mm(x, x).dtype, torch.relu(x.bfloat16()).dtype)
        """,
        warnings="default",
        PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST="low.txt",
        PT_HPU_AUTOCAST_FP32_OPS_LIST="full.txt",
    )
    assert result.out == "torch.bfloat16 torch.float32 torch.float32"
    assert "low.txt names no operators: no_such_operator" in result.err


@pytest.mark.parametrize("enter", ['torch.autocast("hpu").__enter__()', "torch.set_autocast_enabled('hpu', True)"])
def test_fake_tensors_before_the_first_operator_are_cast(script, enter):
    code = f"""
        import habana_frameworks.torch, torch
        from torch._subclasses.fake_tensor import FakeTensorMode
        with FakeTensorMode():
            x = torch.empty(4, 4, device="hpu")
            {enter}
            print((x @ x).dtype)
        """
    assert script(code).out == "torch.bfloat16"
