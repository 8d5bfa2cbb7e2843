"""`python -m ecosystem.sentence_transformers.train DEVICE FOLDER`: trainings in small; their losses as JSON."""

import json
import sys
from pathlib import Path

import datasets
import sentence_transformers as st
from sentence_transformers import cross_encoder, losses, sparse_encoder

from ecosystem import both
from ecosystem.sentence_transformers import support

DEVICE, FOLDER = sys.argv[1], Path(sys.argv[2])


def options(name):
    return both.options(FOLDER / name, DEVICE, 4)


ROWS = range(16)
PAIRS = datasets.Dataset.from_dict({"anchor": [f"w{n} is blue" for n in ROWS], "positive": [f"a w{n}" for n in ROWS]})
TRIPLETS = PAIRS.add_column("negative", [f"the w{n + 1} sat" for n in ROWS])
SCORED = PAIRS.add_column("label", [n / 16 for n in ROWS])
CLASSED = datasets.Dataset.from_dict({"text": [f"w{n} w{n % 3}" for n in ROWS], "label": [n % 3 for n in ROWS]})


def losses_of(trainer):
    assert trainer.args.device.type == DEVICE
    trainer.train()
    return both.logged(trainer)


def embedding(name, data, make_loss):
    model = support.embedder(FOLDER / f"{name}-model", DEVICE)
    arguments = st.SentenceTransformerTrainingArguments(**options(name))
    return losses_of(st.SentenceTransformerTrainer(model, arguments, train_dataset=data, loss=make_loss(model)))


def main():
    found = {
        "ranking": embedding("ranking", PAIRS, losses.MultipleNegativesRankingLoss),
        "cached ranking": embedding(
            "cached", PAIRS, lambda m: losses.CachedMultipleNegativesRankingLoss(m, mini_batch_size=2)
        ),
        "triplets": embedding("triplets", TRIPLETS, losses.TripletLoss),
        "cosine": embedding("cosine", SCORED, losses.CosineSimilarityLoss),
        "cosent": embedding("cosent", SCORED, losses.CoSENTLoss),
        "batch triplets": embedding("batch", CLASSED, losses.BatchAllTripletLoss),
        "matryoshka": embedding(
            "matryoshka", PAIRS, lambda m: losses.MatryoshkaLoss(m, losses.MultipleNegativesRankingLoss(m), [32, 16, 8])
        ),
    }  # fmt: skip
    model = support.cross(FOLDER / "cross-model", DEVICE)
    found["cross encoder"] = losses_of(
        cross_encoder.CrossEncoderTrainer(
            model, cross_encoder.CrossEncoderTrainingArguments(**options("cross")), train_dataset=SCORED,
            loss=cross_encoder.losses.BinaryCrossEntropyLoss(model),
        )
    )  # fmt: skip
    model = support.sparse(FOLDER / "sparse-model", DEVICE)
    found["sparse encoder"] = losses_of(
        sparse_encoder.SparseEncoderTrainer(
            model, sparse_encoder.SparseEncoderTrainingArguments(**options("sparse")), train_dataset=PAIRS,
            loss=sparse_encoder.losses.SpladeLoss(
                model, sparse_encoder.losses.SparseMultipleNegativesRankingLoss(model),
                document_regularizer_weight=1e-3, query_regularizer_weight=1e-3,
            ),
        )
    )  # fmt: skip
    print(json.dumps(found))


if __name__ == "__main__":
    main()
