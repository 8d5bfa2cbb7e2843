"""datasets' tensors on hpu: formats, maps, loaders, against the CPU's values."""

import datasets
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

ROWS = 20
FEATURES = datasets.Features(
    {
        "x": datasets.Sequence(datasets.Value("float32"), length=4),
        "y": datasets.Value("int64"),
        "m": datasets.Array2D((2, 3), "float32"),
        "text": datasets.Value("string"),
        "ragged": datasets.Sequence(datasets.Value("int64")),
    }
)


@pytest.fixture(scope="module", autouse=True)
def progress():
    datasets.disable_progress_bars()


def made():
    return datasets.Dataset.from_dict(
        {
            "x": [[n, n + 0.5, -n, 1] for n in range(ROWS)],
            "y": list(range(ROWS)),
            "m": [np.full((2, 3), n) for n in range(ROWS)],
            "text": [f"row {n}" for n in range(ROWS)],
            "ragged": [list(range(n % 4 + 1)) for n in range(ROWS)],
        },
        features=FEATURES,
    )


def on_hpu(data):
    return data.with_format("torch", device="hpu")


def test_rows_and_columns():
    data = on_hpu(made())
    assert data[3]["x"].device.type == data[3]["m"].device.type == "hpu"
    assert data[3]["x"].cpu().tolist() == [3, 3.5, -3, 1]
    assert data[3]["text"] == "row 3"
    assert data[2:5]["y"].tolist() == [2, 3, 4]
    assert data[:4]["m"].shape == (4, 2, 3)
    assert data[:]["x"].dtype == torch.float32
    assert data["y"][:].sum().item() == sum(range(ROWS))
    assert [r.tolist() for r in data[:4]["ragged"]] == [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]]
    assert all(r.device.type == "hpu" for r in data[:4]["ragged"])


def test_map_on_the_device():
    data = on_hpu(made()).map(lambda row: {"z": row["x"] * 2 + row["y"]})
    assert data[3]["z"].cpu().tolist() == [9, 10, -3, 5]
    batched = on_hpu(made()).map(lambda rows: {"z": rows["m"].sum((1, 2))}, batched=True, batch_size=7)
    assert batched["z"][:].cpu().tolist() == [6.0 * n for n in range(ROWS)]


def test_loader():
    batches = list(DataLoader(on_hpu(made().remove_columns(["text", "ragged"])), batch_size=6))
    assert [len(b["y"]) for b in batches] == [6, 6, 6, 2]
    assert all(value.device.type == "hpu" for batch in batches for value in batch.values())
    assert torch.cat([b["x"] for b in batches]).cpu().equal(made().with_format("torch")[:]["x"])


def test_written_from_device_tensors():
    """map() writes what a function returns, also if it lies on the device."""
    data = made().map(lambda rows: {"norm": torch.tensor(rows["x"], device="hpu").norm(dim=1)}, batched=True)
    assert torch.tensor(data["norm"][:]).allclose(torch.tensor(made()["x"][:]).norm(dim=1))
