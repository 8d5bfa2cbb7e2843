"""`python -m ecosystem.optimum_habana.train DEVICE FOLDER`: CASES and others; prints losses as JSON.

On "cpu" with transformers' Trainer, nothing adapted; on "hpu" with GaudiTrainer. A process has one device.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, Trainer, TrainingArguments

from ecosystem import both
from ecosystem.both import logged, rows
from ecosystem.optimum_habana.support import KEYS, LAZY, make
from ecosystem.optimum_habana.train_cases import CASES, LAZY_ONLY, LENGTH, STEPS

DEVICE = sys.argv[1]
FOLDER = Path(sys.argv[2])


def trainer(
    key: str,
    name: str,
    changes: dict[str, Any],
    config: dict[str, Any],
    own: dict[str, Any],
    sequences: bool = False,
    **more: Any,
) -> Any:
    """The device's trainer."""
    options = both.options(FOLDER / name, DEVICE, STEPS, **changes)
    if DEVICE == "cpu":
        arguments = (Seq2SeqTrainingArguments if sequences else TrainingArguments)(**options)
        return (Seq2SeqTrainer if sequences else Trainer)(make(KEYS[key]), arguments, **more)
    import optimum.habana as oh

    del options["use_cpu"]
    own = {key: value for key, value in own.items() if LAZY or key not in LAZY_ONLY}
    kind = oh.GaudiSeq2SeqTrainingArguments if sequences else oh.GaudiTrainingArguments
    arguments = kind(use_habana=True, use_lazy_mode=LAZY, **options, **own)
    made = (oh.GaudiSeq2SeqTrainer if sequences else oh.GaudiTrainer)(
        model=make(KEYS[key]), gaudi_config=oh.GaudiConfig(**config), args=arguments, **more
    )
    assert all(p.device.type == "hpu" for p in made.model.parameters())
    return made


def main() -> None:
    if DEVICE == "hpu":
        from optimum.habana.transformers.modeling_utils import adapt_transformers_to_gaudi

        adapt_transformers_to_gaudi()
    found: dict[str, Any] = {}
    for name, case in CASES.items():
        made = trainer("GPT2", name, case.both, case.configuration, case.own, train_dataset=rows())
        made.train()
        found[name] = logged(made)

    half = STEPS // 2
    saving = {"save_strategy": "steps", "save_steps": half}
    trainer("GPT2", "resumed", saving, {}, {}, train_dataset=rows()).train()
    torch.manual_seed(99)  # what the process drew before is not what counts
    resumed = trainer("GPT2", "resumed", {}, {}, {}, train_dataset=rows())
    resumed.train(resume_from_checkpoint=str(FOLDER / "resumed" / f"checkpoint-{half}"))
    found["resumed"] = logged(resumed)[-half:]

    classifier = trainer(
        "RobertaForSequenceClassification",
        "evaluation",
        {},
        {"use_fused_adam": True},
        {"use_hpu_graphs_for_inference": True},
        train_dataset=rows(classes=True),
        eval_dataset=rows(classes=True)[:10],
        compute_metrics=lambda p: {"accuracy": float((p.predictions.argmax(-1) == p.label_ids).mean())},
    )
    classifier.train()
    evaluated = classifier.evaluate()
    found["evaluation"] = {"eval_loss": evaluated["eval_loss"], "accuracy": evaluated["eval_accuracy"]}

    pairs = rows(labels=6)
    generating = {"predict_with_generate": True, "generation_max_length": LENGTH}
    seq2seq = trainer("T5", "sequences", generating, {}, {}, True, train_dataset=pairs, eval_dataset=pairs[:4])
    seq2seq.train()
    found["sequences"] = logged(seq2seq)
    try:
        found["tokens"] = seq2seq.predict(pairs[:4]).predictions.tolist()
    except ValueError as error:  # of its own; the others' results are not lost for it
        found["tokens"] = f"ValueError: {error}"
    print(json.dumps(found))


if __name__ == "__main__":
    main()
