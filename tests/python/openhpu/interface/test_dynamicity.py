"""Finding what is compiled anew."""

import csv

import pytest
import torch

from habana_frameworks.torch.utils import experimental as htexp
from openhpu.interface import dynamicity

NET = """
import csv, torch
from habana_frameworks.torch.utils import experimental as htexp

class Chosen(torch.nn.Module):
    def forward(self, x):
        return x[x > 0] * 2

class Static(torch.nn.Module):
    def forward(self, x):
        return torch.where(x > 0, x, 0) * 2

def found(part, *batches):
    net = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), part).to("hpu")
    with torch.no_grad():
        net[0][0].weight.copy_(torch.eye(4))
        net[0][0].bias.zero_()
    model = htexp.detect_recompilation_auto_model(net, mdlname="Mine", csv_out="out")
    for rows, of in batches:
        x = torch.ones(of, 4)
        x[rows:] = -1
        model(x.to("hpu")).sum().item()
    rows = model.analyse_dynamicity()
    print([(row["step"], row["module"], row["comment"]) for row in rows if row["step"]])
    with open("out_2.csv") as file:
        print({row["Module name"]: int(row["Recompile count"]) for row in csv.DictReader(file)})
"""


def rows(result):
    """The last two lines that `found` prints, of each of its calls."""
    printed = [line for line in result.out.splitlines() if line.startswith(("[", "{"))]
    return [eval(line) for line in printed]


@pytest.mark.parametrize("mode", [{"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "off"}, {"PT_HPU_LAZY_MODE": "0"}])
def test_a_dynamic_operator_is_told_from_a_static_one(script, mode):
    """Both modules get inputs of one shape. The device compiles for the one whose sizes depend on values."""
    code = NET + "found(Chosen(), (3, 8), (3, 8), (5, 8))\nfound(Static(), (3, 8), (3, 8), (5, 8))\n"
    chosen, chosen_counts, static, static_counts = rows(script(code, **mode))
    assert chosen == [
        (2, "Mine", "parent of Mine/1"),
        (2, "Mine/1", "already processed input shape still recompiled, maybe dynamic ops"),
    ]
    assert chosen_counts["Mine/1"] == 2
    assert static == []
    assert set(static_counts.values()) <= {1}


def test_new_input_shapes_and_the_files(script, tmp_path):
    code = NET + "found(Static(), (3, 8), (3, 8), (3, 6), (3, 8))\n"
    found, counts = rows(script(code, PT_HPU_LAZY_MODE="1", OPENHPU_COMPILE="off"))
    assert {row for row in found if "parent" not in row[2]} == {
        (2, f"Mine/{part}", "new input shape") for part in ("0/0", "0/1", "1")
    }
    assert counts == {"Mine/0/0": 2, "Mine/0/1": 2, "Mine/1": 2}
    with (tmp_path / "out_1.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [row["Step"] for row in table] == ["0"] * 5 + ["2"] * 5
    assert [row["Recompiling modules"] for row in table][:5] == ["Mine", "Mine/0", "Mine/0/0", "Mine/0/1", "Mine/1"]
    linear = table[2]
    assert (linear["Class"], linear["New in"], linear["Comment"]) == ("Linear", "True", "new input shape")
    assert linear["Location"].partition(".py:")[0].endswith("nn/modules/linear")


COMPILED = """
import torch
from habana_frameworks.torch.utils import experimental as htexp

class Chosen(torch.nn.Module):
    def forward(self, x):
        return x[x > 0] * 2

class Scaled(torch.nn.Module):
    scale = 2
    def forward(self, x):
        return x * self.scale

def found(part, *batches, before=lambda step: None, **options):
    net = torch.nn.Sequential(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.ReLU()), part).to("hpu")
    model = htexp.detect_recompilation_auto_model(net, mdlname="Mine", csv_out="out")
    compiled = torch.compile(model, backend="hpu_backend", **options)
    for step, rows in enumerate(batches):
        before(step)
        with torch.no_grad():
            compiled(rows.to("hpu")).sum().item()
    rows = model.analyse_dynamicity()
    print([(row["step"], row["module"], row["comment"], row["cause"]) for row in rows])

def chosen(*counts):
    for count in counts:
        x = torch.full((8, 4), -1.0)
        x[:count] = 1
        yield x
"""


def test_a_compiled_model(script):
    """One graph has all modules. A new size is a new graph, and so is another value of a guard, but no other call.

    An operator whose sizes depend on values breaks the graph: then modules are compiled one by one."""
    code = (
        COMPILED
        + """
part = Scaled()
def change(step):
    if step == 4:
        part.scale = 3
found(part, *(torch.ones(n, 4) for n in (8, 8, 6, 7, 7, 7)), before=change, fullgraph=True)
found(Chosen(), *chosen(3, 3, 5))
"""
    )
    printed = [line for line in script(code, PT_HPU_LAZY_MODE="0").out.splitlines() if line.startswith("[(")]
    (first, size, value), broken = (eval(line) for line in printed)
    assert first == (0, "Mine", "new input shape", "")
    assert size[:3] == (2, "Mine", "new input shape")
    assert "size mismatch" in size[3]
    assert value[:3] == (4, "Mine", dynamicity.DYNAMIC)
    assert "scale" in value[3]
    assert [row[:3] for row in broken if row[0]] == [
        (2, "Mine", "parent of Mine/1"),
        (2, "Mine/1", dynamicity.DYNAMIC),
    ]


def test_a_model_on_the_cpu(tmp_path, capsys):
    """Nothing is compiled; calls with new shapes are listed."""
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    model = htexp.detect_recompilation_auto_model(net, csv_out=str(tmp_path / "out"))
    for length in (2, 2, 3):
        model(torch.ones(length, 4))
    found = [(row["step"], row["module"], row["comment"]) for row in model.analyse_dynamicity() if row["compiled"]]
    assert found[3:] == [(2, name, dynamicity.NEW_INPUT) for name in ("Net", "Net/0", "Net/1")]
    assert "ran on the CPU, where nothing is compiled" in capsys.readouterr().out
    assert len(model.raw_logs()) == 9
    assert (tmp_path / "out_raw.csv").exists()


def test_a_call_that_fails_leaves_nothing_behind(tmp_path):
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(3, 3))
    model = htexp.detect_recompilation_auto_model(net, csv_out=str(tmp_path / "out"))
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        model(torch.ones(2, 4))
    net[1] = torch.nn.Identity()
    model(torch.ones(2, 4))
    assert [row["module"] for row in model.raw_logs() if row["step"] == 1] == ["Net/0", "Net"]


@pytest.mark.parametrize(
    ("lengths", "unique", "advice"),
    [
        ((5, 5), 1, "the data cause no recompilation"),
        ((5, 7, 5, 7), 2, "pad the batches to one length"),
        ((5, 5, 3), 2, "use drop_last=True"),
        ((), 0, "has no batch"),
    ],
)
def test_data_dynamicity(capsys, lengths, unique, advice):
    batches = [{"ids": torch.zeros(2, n), "labels": (torch.zeros(2),)} for n in lengths]
    found = htexp.data_dynamicity(batches)
    assert found == {f"['ids']: [2, {n}], ['labels'][0]: [2]": lengths.count(n) for n in dict.fromkeys(lengths)}
    printed = capsys.readouterr().out
    assert f"Number of unique shapes: {unique}\n" in printed
    assert advice in printed


def test_const_shape_dataloader():
    batches = [{"ids": torch.ones(2, n, dtype=torch.int64), "labels": torch.ones(2, n), "name": "x"} for n in (3, 5)]
    padded = htexp.const_shape_dataloader(batches, 5)
    assert len(padded) == 2
    for _ in range(2):  # again and again
        first, second = padded
        assert first["ids"].tolist() == [[1, 1, 1, 0, 0]] * 2
        assert first["labels"].tolist() == [[1, 1, 1, -100, -100]] * 2
        assert second["ids"].shape == (2, 5)
        assert first["name"] == "x"
    ((images, labels),) = htexp.const_shape_dataloader([(torch.ones(2, 3, 4), torch.ones(2))], 4)
    assert (images.shape, labels.shape) == ((2, 4, 4), (2,))
    with pytest.raises(ValueError, match=r"shape \[2, 5\], longer than maxlen=4"):
        list(htexp.const_shape_dataloader(batches, 4))
