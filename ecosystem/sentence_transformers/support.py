"""Models of a few words, made on the CPU, the same each time."""

from pathlib import Path
from typing import Any

import torch
import transformers
from sentence_transformers import CrossEncoder, SentenceTransformer, SparseEncoder, models
from sentence_transformers.sparse_encoder.models import MLMTransformer, SpladePooling

from ecosystem.both import shaken
from ecosystem.transformers.models import TEXT
from ecosystem.words import SIZE, tokenizer

TEXTS = ["the cat sat on the mat", "a dog", "this example is good . the house is blue .", "w5 w6 w7", "a red house", ""]
PAIRS = [("the cat", "the dog"), ("a house is blue", "what colour"), ("w1", "w2 w3 w4")]


def saved(folder: Path, kind: Any, **config: object) -> str:
    """A tiny BERT with its tokenizer, saved."""
    torch.manual_seed(0)
    chances = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    made = kind(transformers.BertConfig(**TEXT | {"vocab_size": SIZE} | chances | config))
    shaken(made, 0.1)
    made.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return str(folder)


def embedder(folder: Path, device: str, pooling: str = "mean") -> SentenceTransformer:
    """Sentences to vectors."""
    words = models.Transformer(saved(folder, transformers.BertModel), max_seq_length=32)
    pool = models.Pooling(words.get_word_embedding_dimension(), pooling_mode=pooling)
    return SentenceTransformer(modules=[words, pool, models.Normalize()], device=device)


def cross(folder: Path, device: str) -> CrossEncoder:
    """Pairs of sentences to a number."""
    return CrossEncoder(saved(folder, transformers.BertForSequenceClassification, num_labels=1), device=device)


def sparse(folder: Path, device: str) -> SparseEncoder:
    """Sentences to words' weights."""
    path = saved(folder, transformers.BertForMaskedLM)
    return SparseEncoder(modules=[MLMTransformer(path), SpladePooling(pooling_strategy="max")], device=device)
