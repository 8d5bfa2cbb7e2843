"""`python -m ecosystem.sentence_transformers.train DEVICE FOLDER`: trainings in small; their losses as JSON."""

import json
import sys
from functools import partial
from pathlib import Path

import datasets
import sentence_transformers as st
from sentence_transformers import cross_encoder, losses, sparse_encoder

from ecosystem import both
from ecosystem.sentence_transformers import support

ROWS = range(16)
PAIRS = datasets.Dataset.from_dict({"anchor": [f"w{n} is blue" for n in ROWS], "positive": [f"a w{n}" for n in ROWS]})
TRIPLETS = PAIRS.add_column("negative", [f"the w{n + 1} sat" for n in ROWS])
SCORED = PAIRS.add_column("label", [n / 16 for n in ROWS])
CLASSED = datasets.Dataset.from_dict({"text": [f"w{n} w{n % 3}" for n in ROWS], "label": [n % 3 for n in ROWS]})
_RANKING = losses.MultipleNegativesRankingLoss
# The model, its trainer and what the trainer is told.
_EMBEDDER = support.embedder, st.SentenceTransformerTrainer, st.SentenceTransformerTrainingArguments
_CROSS = support.cross, cross_encoder.CrossEncoderTrainer, cross_encoder.CrossEncoderTrainingArguments
_SPARSE = support.sparse, sparse_encoder.SparseEncoderTrainer, sparse_encoder.SparseEncoderTrainingArguments


def _splade(model):
    ranking = sparse_encoder.losses.SparseMultipleNegativesRankingLoss(model)
    return sparse_encoder.losses.SpladeLoss(
        model, ranking, document_regularizer_weight=1e-3, query_regularizer_weight=1e-3
    )


CASES = {
    "ranking": (_EMBEDDER, PAIRS, _RANKING),
    "cached ranking": (_EMBEDDER, PAIRS, partial(losses.CachedMultipleNegativesRankingLoss, mini_batch_size=2)),
    "triplets": (_EMBEDDER, TRIPLETS, losses.TripletLoss),
    "cosine": (_EMBEDDER, SCORED, losses.CosineSimilarityLoss),
    "cosent": (_EMBEDDER, SCORED, losses.CoSENTLoss),
    "batch triplets": (_EMBEDDER, CLASSED, losses.BatchAllTripletLoss),
    "matryoshka": (_EMBEDDER, PAIRS, lambda model: losses.MatryoshkaLoss(model, _RANKING(model), [32, 16, 8])),
    "cross encoder": (_CROSS, SCORED, cross_encoder.losses.BinaryCrossEntropyLoss),
    "sparse encoder": (_SPARSE, PAIRS, _splade),
}


def trained(device, folder, name):
    (make, trainer, arguments), data, make_loss = CASES[name]
    model = make(folder / f"{name}-model", device)
    given = arguments(**both.options(folder / name, device, 4))
    made = trainer(model, given, train_dataset=data, loss=make_loss(model))
    assert made.args.device.type == device
    made.train()
    return both.logged(made)


if __name__ == "__main__":
    print(json.dumps({name: trained(sys.argv[1], Path(sys.argv[2]), name) for name in CASES}))
