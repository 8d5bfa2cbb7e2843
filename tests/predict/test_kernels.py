"""The cost of a user's operator from the account of its kernel in TPC-C."""

import pytest
import torch

from openhpu_predict import cost, fake, kernels, load
from openhpu_predict.cost import Parameters
from openhpu_predict.operators import Kind
from openhpu_predict.recording import Node
from tests.tpc.libraries import built
from tests.tpc.planted import EXAMPLES

IDEAL = Parameters(1.0, 1.0, 1.0, 0.0, 0.0)


@pytest.fixture
def library(monkeypatch):
    described = EXAMPLES / "described"
    files = {path.name: path.read_text() for path in sorted(described.iterdir())}
    path = built(files, checks=True)
    monkeypatch.setenv("GC_KERNEL_PATH", f"/nowhere.so:{path}")
    row = {"schema": "mine::rows", "guid": "gather_f32", "legacy": False, "calls": 0, "kernel": None}
    monkeypatch.setattr(kernels, "user_operators", lambda: [row])


def test_an_account_gives_the_cycles(library):
    operands = [torch.empty(9, 130, device="meta"), torch.empty(6, dtype=torch.int64, device="meta")]
    result = torch.empty(6, 130, device="meta")
    # 3 members a row: each reads an address, loads and stores a register; an access takes 4 cycles.
    assert kernels.cycles("mine::rows", operands, [result]) == 4 * 6 * 3 * 3
    with fake():
        assert kernels.cycles("mine::rows", operands, [result[:4]]) == 4 * 4 * 3 * 3
    assert kernels.cycles("mine::others", operands, [result]) == 0.0
    assert kernels.cycles("mine::rows", operands[:1], [result]) == 0.0  # the kernel refuses it


def test_the_cycles_are_the_time_of_the_tpc():
    device = load("gaudi2")
    node = Node("mine::rows", Kind.KERNEL, torch.float32, {1: 128}, {2: 128}, 32, [], 0, None, "", False, cycles=3e6)
    found = cost.fuse([node], [])
    cost.schedule([node], found, device, IDEAL)
    assert found[0].bound == "TPC"
    assert found[0].seconds == pytest.approx(3e6 * 256 / device.tpc_bf16_peak)
