"""encode and predict on hpu against the CPU."""

import numpy as np
import pytest
import sentence_transformers
import torch
from torch.testing import assert_close

from ecosystem.sentence_transformers.support import PAIRS, TEXTS, cross, embedder, sparse

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def on_each(make, tmp_path):
    return {device: make(tmp_path / device, device) for device in ("cpu", "hpu")}


def test_device_is_found(tmp_path):
    assert sentence_transformers.util.get_device_name() == "hpu"
    assert embedder(tmp_path, None).device.type == "hpu"


@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "lasttoken"])
def test_encode(tmp_path, pooling):
    models = on_each(lambda folder, device: embedder(folder, device, pooling), tmp_path)
    for _ in range(2):  # the second time graphs are there
        found = models["hpu"].encode(TEXTS, batch_size=2, convert_to_tensor=True)
        assert found.device.type == "hpu"
        assert_close(found.cpu(), models["cpu"].encode(TEXTS, batch_size=2, convert_to_tensor=True), **CLOSE)


@pytest.mark.parametrize(
    "options",
    [
        {"precision": "int8"},
        {"precision": "binary"},
        {"output_value": "token_embeddings"},
        {"truncate_dim": 8},
        {"normalize_embeddings": True},
        {"convert_to_numpy": True},
        {"prompt": "the "},
    ],
    ids=str,
)
def test_encode_options(tmp_path, options):
    models = on_each(embedder, tmp_path)
    found, expected = (models[device].encode(TEXTS[:5], batch_size=2, **options) for device in ("hpu", "cpu"))
    for one, other in zip(found, expected, strict=True):
        one, other = (np.asarray(value.cpu() if isinstance(value, torch.Tensor) else value) for value in (one, other))
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        if one.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
        else:  # what lies between two steps may fall to either
            assert (np.abs(one.astype(int) - other.astype(int)) <= 1).mean() > 0.9


def test_cross_encoder(tmp_path):
    models = on_each(cross, tmp_path)
    assert models["hpu"].model.device.type == "hpu"
    found, expected = (models[device].predict(PAIRS, batch_size=2) for device in ("hpu", "cpu"))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    ranks = [[r["corpus_id"] for r in models[device].rank(TEXTS[0], TEXTS[1:5])] for device in ("hpu", "cpu")]
    assert ranks[0] == ranks[1]


def test_sparse_encoder(tmp_path):
    models = on_each(sparse, tmp_path)
    found, expected = (
        models[device].encode(TEXTS[:4], convert_to_sparse_tensor=False, convert_to_tensor=True).cpu()
        for device in ("hpu", "cpu")
    )
    assert_close(found, expected, **CLOSE)
    assert models["hpu"].encode(TEXTS[:4]).to_dense().device.type == "hpu"
