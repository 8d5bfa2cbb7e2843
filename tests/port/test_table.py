import operator
import re

import pytest
import torch

from openhpu.integration.migration import cuda_names
from openhpu.settings import tables
from openhpu_port import from_cuda, to_device
from openhpu_port.table import TABLE, TARGETS, PortedName


def test_what_is_listed_has_a_reason():
    listed = [row for row in tables.read(TABLE, PortedName) if "!" in (row.cuda, row.xpu, row.cpu)]
    assert listed
    for row in listed:
        assert row.reason, row.name


@pytest.mark.parametrize("target", TARGETS)
def test_what_names_become_exists(target):
    table = to_device(target)
    for name, entry in table.names.items():
        assert entry.to[0] in "!=@" or not table.is_own(entry.to), name
        for found in re.findall(r"\btorch\.[\w.]+", f"{entry.to} {entry.arguments}"):
            if "Stream.cuda_stream" not in found and entry.to != "!":
                operator.attrgetter(found.removeprefix("torch."))(torch)


def test_torch_hpu_goes_backwards_through_the_table_of_cuda_names():
    rows = [
        row
        for row in cuda_names.ROWS.values()
        if row.name.startswith("torch.cuda.") and row.counterpart.startswith("torch.hpu.")
    ]
    cuda, cpu = to_device("cuda"), to_device("cpu")
    assert len(rows) > 60
    for row in rows:
        entry = cuda.find(row.counterpart)
        assert entry.to == row.name or cuda_names.ROWS[entry.to].counterpart == row.counterpart, row
    assert cuda.attributes == {"hpu": "cuda", "is_hpu": "is_cuda"}
    assert cpu.attributes == {"hpu": "cpu", "is_hpu": "is_cpu"}


def test_cuda_names_go_forwards():
    table = from_cuda()
    for row in cuda_names.ROWS.values():
        if row.name.startswith("torch.cuda.") and row.how == "same" and row.counterpart.startswith("torch.hpu."):
            assert table.find(row.name).to == row.counterpart
        elif row.name.startswith("torch.cuda.") and row.how == "refused":
            assert table.find(row.name) == ("!", "", row.result)
