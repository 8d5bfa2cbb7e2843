"""Finding what changes its shape."""

import csv

import pytest
import torch

from habana_frameworks.torch.utils import experimental as htexp


class Chosen(torch.nn.Module):
    """As many rows as are positive."""

    def forward(self, x):
        return x[x[:, 0] > 0]


@pytest.fixture
def model(tmp_path):
    net = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), Chosen())
    return htexp.detect_recompilation_auto_model(net, mdlname="Mine", csv_out=str(tmp_path / "out"))


def positive(rows, of):
    x = torch.ones(of, 4)
    x[rows:] = -1
    return x


def test_the_innermost_modules_that_met_new_shapes(model, tmp_path, capsys):
    with torch.no_grad():
        model[0][0].weight.copy_(torch.eye(4))
        model[0][0].bias.zero_()
    for x in (positive(3, 8), positive(3, 8), positive(5, 8), positive(3, 6)):
        model(x)
    rows = model.analyse_dynamicity()
    assert [(row["step"], row["module"], row["new_in"], row["new_out"]) for row in rows] == [
        (2, "Mine.1", False, True),
        (3, "Mine.0.0", True, True),
        (3, "Mine.0.1", True, True),
        (3, "Mine.1", True, False),
    ]
    assert "sizes depend on values" in rows[0]["comment"]
    assert "4 calls of modules" in capsys.readouterr().out
    with (tmp_path / "out.csv").open() as file:
        assert [row["module"] for row in csv.DictReader(file)] == [row["module"] for row in rows]
    assert len(model.raw_logs()) == 4 * 5
    assert (tmp_path / "out_raw.csv").exists()


def test_data_dynamicity(capsys):
    batches = [{"ids": torch.zeros(2, n), "labels": (torch.zeros(2),)} for n in (5, 7, 5)]
    assert htexp.data_dynamicity(batches) == {
        "batch['ids']": {"[2, 5]": 2, "[2, 7]": 1},
        "batch['labels'][0]": {"[2]": 3},
    }
    assert "2 different shapes" in capsys.readouterr().out


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
