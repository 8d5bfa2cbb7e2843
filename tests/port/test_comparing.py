import pytest

from commands import ROOT
from openhpu_port import comparing, port, to_device

PRETRAINING = (ROOT / "tests" / "port" / "scripts" / "pretraining.py").read_text()
TRAINING = PRETRAINING.replace("nn.Embedding(50, 32), ", "nn.Embedding(50, 32), nn.Dropout(0.2), ").replace(
    ".hpu()", ".hpu() + torch.zeros(16, device='hpu').bernoulli_(0.0).long()"
)
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
WRAPS = "import torch\n\nx = torch.tensor([2**30]).to('hpu')\ny = x * 4\nprint(y.item())\n"
FAULTS = [  # script, what a change in the port replaces, by what, module, text of the line, a suspect
    (TRAINING, "1e-6)", "1e-2)", "model.2", "FusedRMSNorm.apply", ""),
    (TRAINING, "0.0, True", "0.0, False", "model.2", "FusedSDPA.apply", ""),
    (TRAINING, "(x, ", "(x.detach(), ", "model.3", "FusedRMSNorm.apply", ""),
    (TRAINING, "nn.Dropout(0.2)", "nn.Dropout(0.4)", "model.1", "= nn.functional.cross", ""),
    (TRAINING, "lr=1e-2", "lr=1e-1", "model.0", "optimizer.step()", ""),
    (TRAINING, "loss.backward()", "(2 * loss).backward()", "none", "loss = ", ""),
    (TRAINING.replace("Embedding(50", "Embedding(40"), "", "", "model.0", "loss = ", "indices: "),
    (MIXED, "", "", "drift", "return large", "autocast: `torch.mul` at a.py:7 gives torch.bfloat16, and torch.float32"),
    (WRAPS, "", "", "none", "y = x * 4", "int64: aten::mul wraps 1 results"),
]


@pytest.fixture(scope="module")
def compare(tmp_path_factory):
    """Compares a script with its port, changed. A script runs once for all of its ports."""
    folder = tmp_path_factory.mktemp("compared")
    runs = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENHPU_MODULE_LOCKS", "0")
        patch.setenv("PT_ENABLE_INT64_SUPPORT", "0")

        def compare(text, old="", new=""):
            (folder / "a.py").write_text(text)
            if text not in runs:
                runs[text] = comparing.run(folder / "a.py", 0, 300.0, strict=text == WRAPS)
            ported = port(text.encode(), to_device("cpu")).text.decode()
            assert old in ported
            (folder / "b.py").write_text(ported.replace(old, new) if old else ported)
            other = comparing.run(folder / "b.py", 0, 300.0)
            count, difference = comparing.first_difference(runs[text], other)
            return count, "\n".join(comparing.told(runs[text], other, count, difference))

        yield compare


@pytest.mark.parametrize(("text", "old", "new", "module", "line", "suspect"), FAULTS)
def test_the_first_module_and_line_that_differ_are_named(compare, text, old, new, module, line, suspect):
    _, said = compare(text, old, new)
    number = next(at for at, one in enumerate(text.splitlines(), 1) if line in one)
    assert f"  module: {module}\n  line:   a.py:{number}, b.py:" in said
    assert f"suspect: {suspect}" in said if suspect else "suspect" not in said


def test_a_true_port_agrees_though_it_draws_random_numbers(compare):
    count, said = compare(TRAINING)
    assert count > 300
    assert said == f"{count} results agree within their dtypes' tolerance"


@pytest.mark.parametrize(
    ("text", "options", "code", "said"),
    [
        (None, (), 2, "there is no script"),
        ("x = 1", (), 2, "computed nothing that could be recorded"),
        ("import torch", ("--seconds", "0"), 2, "--seconds above 0"),
        ("import torch\nx = torch.ones(2) * 2\nwhile True: pass", ("--seconds", "8"), 2, "by its time, 8 s"),
        ("import torch\nx = torch.ones(2) * 2", (), 0, "2 results agree"),
        ("import os, torch\nx = torch.ones(2 + os.getpid())", ("an argument",), 1, "the shapes are"),
    ],
)
def test_the_command(tmp_path, capfd, text, options, code, said):
    script = tmp_path / "a.py"
    if text is not None:
        script.write_text(text)
    before = options if options[:1] == ("--seconds",) else ()
    assert comparing.main([*before, str(script), str(script), *(() if before else options)]) == code
    captured = capfd.readouterr()
    assert said in captured.out + captured.err
