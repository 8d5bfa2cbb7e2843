"""pipeline() on hpu and on the CPU, with tokenizers and processors built here."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from torch.utils._pytree import tree_flatten
from transformers import pipeline

from ecosystem.transformers.models import MODELS
from ecosystem.transformers.support import make
from ecosystem.words import tokenizer

TEXT = "the cat sat on the mat ."


def image():
    torch.manual_seed(5)
    return Image.fromarray((torch.rand(40, 48, 3) * 255).numpy().astype(np.uint8))


def sound():
    return np.sin(np.arange(2400) / 7).astype(np.float32)


def model(name, **config):
    row = next(each for each in MODELS if each.name == name)
    return make(row._replace(config=row.config | config))


def classes(name):
    """A text model's head for classes in another's configuration."""
    row = next(each for each in MODELS if each.name == "BertForMaskedLM")
    labels = ("entailment", "no", "other")
    names = {"id2label": dict(enumerate(labels)), "label2id": {label: n for n, label in enumerate(labels)}}
    return make(row._replace(name=name, config=row.config | names))


def image_processor(kind="ViTImageProcessor"):
    size = {"height": 32, "width": 32}
    return getattr(transformers, kind)(size=size, crop_size=size)


def flat(results):
    """How results are nested, and their words and numbers."""
    leaves, form = tree_flatten(results)
    arrays = [isinstance(leaf, torch.Tensor | np.ndarray | Image.Image) for leaf in leaves]
    lists = [np.asarray(leaf).ravel().tolist() if array else [leaf] for leaf, array in zip(leaves, arrays, strict=True)]
    numbers = [each for leaf in lists for each in leaf if isinstance(each, float | np.floating)]
    return (form, [[each for each in leaf if not isinstance(each, float | np.floating)] for leaf in lists]), numbers


def words():
    return {"tokenizer": tokenizer()}


def pictures():
    return {"image_processor": image_processor()}


def sounds():
    return {"feature_extractor": transformers.Wav2Vec2FeatureExtractor()}


@dataclass(frozen=True)
class Task:
    """A model, what goes with it, the input or what makes it, and options of the call."""

    model: Callable[[], Any]
    parts: Callable[[], dict[str, Any]]
    given: Any
    options: dict[str, Any] = field(default_factory=dict)


TASKS = {
    "text-generation": Task(lambda: model("LlamaForCausalLM"), words, TEXT, {"max_new_tokens": 5, "do_sample": False}),
    "text-generation, batch": Task(
        lambda: model("GPT2LMHeadModel"),
        words,
        [TEXT, "a dog"],
        {"max_new_tokens": 5, "do_sample": False, "batch_size": 2},
    ),
    "fill-mask": Task(lambda: model("BertForMaskedLM"), words, "the [MASK] sat on the mat ."),
    "text-classification": Task(
        lambda: classes("BertForSequenceClassification"),
        words,
        [TEXT, "a dog is good", "bad"],
        {"batch_size": 2, "top_k": None},
    ),
    "token-classification": Task(lambda: classes("BertForTokenClassification"), words, TEXT),
    "zero-shot-classification": Task(
        lambda: classes("BertForSequenceClassification"),
        words,
        TEXT,
        {"candidate_labels": ["cat", "dog", "house"]},
    ),
    "feature-extraction": Task(lambda: classes("BertModel"), words, TEXT),
    "image-classification": Task(lambda: model("ViTForImageClassification"), pictures, image),
    "image-feature-extraction": Task(lambda: model("Dinov2ForImageClassification").dinov2, pictures, image),
    "image-segmentation": Task(
        lambda: model("SegformerForSemanticSegmentation"),
        lambda: {"image_processor": image_processor("SegformerImageProcessor")},
        image,
    ),
    "object-detection": Task(
        lambda: model("YolosForObjectDetection"),
        lambda: {"image_processor": transformers.YolosImageProcessor(size={"height": 32, "width": 32})},
        image,
        {"threshold": 0.0},
    ),
    "audio-classification": Task(lambda: model("HubertForSequenceClassification"), sounds, sound),
    "automatic-speech-recognition": Task(lambda: model("Wav2Vec2ForCTC"), lambda: words() | sounds(), sound),
    "zero-shot-image-classification": Task(
        lambda: model("CLIPModel"),
        lambda: words() | {"image_processor": image_processor("CLIPImageProcessor")},
        image,
        {"candidate_labels": ["cat", "dog"]},
    ),
}


@pytest.mark.parametrize("name", TASKS)
def test_pipeline(name):
    task = TASKS[name]
    results = {}
    for device in ("cpu", "hpu"):
        made = pipeline(name.split(",")[0], model=task.model(), device=device, **task.parts())
        assert made.device.type == device
        results[device] = made(task.given() if callable(task.given) else task.given, **task.options)
    assert results["cpu"]
    (found, numbers), (expected, cpu_numbers) = (flat(results[device]) for device in ("hpu", "cpu"))
    assert found == expected
    assert numbers == pytest.approx(cpu_numbers, rel=1e-3, abs=1e-4)
