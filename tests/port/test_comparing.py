import textwrap

import pytest

from openhpu_port import port, to_device
from openhpu_port.comparing import main

BLOCK = """\
import os

import torch
from torch import nn

import habana_frameworks.torch.core as htcore
from habana_frameworks.torch.hpex.kernels import FusedSDPA
from habana_frameworks.torch.hpex.normalization import FusedRMSNorm


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.gamma = nn.Parameter(torch.ones(16))

    def forward(self, x):
        normed = FusedRMSNorm.apply(x, self.gamma, 1e-6)
        q, k, v = self.qkv(normed).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        attended = FusedSDPA.apply(q, k, v, None, 0.0, True)
        return x + self.out(attended.transpose(1, 2).flatten(2))


torch.hpu.manual_seed(7)
model = nn.Sequential(nn.Embedding(20, 16), Block(), nn.Dropout(0.2), nn.Linear(16, 20)).to("hpu")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
tokens = (torch.arange(24).view(2, 12) % 20).to("hpu")
noise = torch.randn(2, 12, 20, device="hpu")
for _ in range(2):
    logits = model(tokens) + noise
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    htcore.mark_step()
print(loss.item())
"""
MIXED = """\
import torch
from torch import nn


class Drift(nn.Module):
    def forward(self, x):
        large = torch.mul(x + 300, 1.0)
        return large - (x + 300)


drift = Drift()
with torch.autocast("hpu"):
    print(drift(torch.linspace(0, 1, 8).to("hpu")).tolist())
"""
WRAPS = """\
import torch

x = torch.tensor([2**30]).to("hpu")
y = x * 4
print(y.item())
"""
FAULTS = [  # script, what a change in the port replaces, by what, module, text of the line, a suspect
    (BLOCK, "1e-6", "1e-2", "model.1", "FusedRMSNorm.apply", ""),
    (BLOCK, "0.0, True", "0.0, False", "model.1", "FusedSDPA.apply", ""),
    (BLOCK, "(x, ", "(x.detach(), ", "model.1", "FusedRMSNorm.apply", ""),
    (BLOCK, "nn.Dropout(0.2)", "nn.Dropout(0.4)", "model.2", "model(tokens)", ""),
    (BLOCK, "lr=1e-2", "lr=1e-1", "model.0", "optimizer.step()", ""),
    (BLOCK, "+ noise", "- noise", "none", "+ noise", ""),
    (BLOCK, "loss.backward()", "(2 * loss).backward()", "none", "loss = ", ""),
    (BLOCK.replace("% 20", "% 21"), "", "", "model.0", "model(tokens)", "indices: aten::embedding"),
    (MIXED, "", "", "drift", "return large", "autocast: `torch.mul` at a.py:7 gives torch.bfloat16 in a.py"),
    (WRAPS, "", "", "none", "y = x * 4", "int64: aten::mul at a.py:4 wraps 1 results"),
]  # fmt: skip


@pytest.fixture
def compare(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("OPENHPU_MODULE_LOCKS", "0")

    def compare(text, old="", new="", *options):
        ported = port(textwrap.dedent(text).encode(), to_device("cpu")).text.decode()
        assert old in ported
        (tmp_path / "a.py").write_text(text)
        (tmp_path / "b.py").write_text(ported.replace(old, new) if old else ported)
        code = main([*options, str(tmp_path / "a.py"), str(tmp_path / "b.py")])
        return code, capfd.readouterr().out

    return compare


@pytest.mark.parametrize(("text", "old", "new", "module", "line", "suspect"), FAULTS)
def test_the_first_module_and_line_that_differ_are_named(compare, monkeypatch, text, old, new, module, line, suspect):
    monkeypatch.setenv("PT_ENABLE_INT64_SUPPORT", "0")
    code, said = compare(text, old, new, *(["--strict"] if text == WRAPS else []))
    number = next(at for at, one in enumerate(text.splitlines(), 1) if line in one)
    assert code == 1, said
    assert f"  module: {module}\n  line:   a.py:{number}, b.py:" in said
    assert f"suspect: {suspect}" in said if suspect else "suspect" not in said


def test_a_true_port_agrees_though_it_draws_random_numbers(compare):
    code, said = compare(BLOCK)
    assert code == 0 and "results agree within their dtypes' tolerance" in said
    assert "results on hpu" in said.splitlines()[0] and "results on cpu" in said.splitlines()[1]


@pytest.mark.parametrize(("text", "options", "out", "error"), [
    (None, (), "", "there is no script"),
    ("x = 1", (), "", "computed nothing with PyTorch"),
    ("import torch", ("--seconds", "0"), "", "--seconds above 0"),
    ("import torch\nx = torch.ones(2) * 2\nwhile True: pass", ("--seconds", "5"), "it ended by its time, 5 s", ""),
])  # fmt: skip
def test_bad_input(tmp_path, capfd, text, options, out, error):
    script = tmp_path / "a.py"
    if text is not None:
        script.write_text(text)
    assert main([*options, str(script), str(script)]) == 2
    captured = capfd.readouterr()
    assert out in captured.out and error in captured.err
