"""`python -m ecosystem.transformers.train DEVICE FOLDER`: Trainer in each of CASES; prints losses and weights as JSON.

In a process of its own: the Trainer's device is one for the process.
"""

import json
import sys
from pathlib import Path

import torch
import transformers
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, Trainer, TrainingArguments

from ecosystem import both
from ecosystem.both import logged, rows
from ecosystem.transformers.models import MODELS, Model
from ecosystem.transformers.train_cases import CASES, STEPS

DEVICE = sys.argv[1]
FOLDER = Path(sys.argv[2])
NO_DROPOUT = {
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "resid_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
    "dropout": 0.0,
    "dropout_rate": 0.0,
}


def model(name: str, dropout: bool = False) -> torch.nn.Module:
    row: Model = next(each for each in MODELS if each.name == name)
    kind = getattr(transformers, name)
    torch.manual_seed(0)
    return kind(kind.config_class(**row.config | ({} if dropout else NO_DROPOUT)))


def options(name: str, **changes: object) -> dict[str, object]:
    return both.options(FOLDER / name, DEVICE, STEPS, **changes)


def weights(trainer: Trainer) -> list[float]:
    return [float(p.detach().double().cpu().square().sum()) for p in trainer.model.parameters()]


def on_device(trainer: Trainer) -> bool:
    return all(p.device.type == DEVICE for p in trainer.model.parameters()) and trainer.args.device.type == DEVICE


def main() -> None:
    found: dict[str, object] = {}
    for name, changes in CASES.items():
        trainer = Trainer(model("GPT2LMHeadModel"), TrainingArguments(**options(name, **changes)), train_dataset=rows())
        trainer.train()
        found[name] = {"losses": logged(trainer), "weights": weights(trainer), "there": on_device(trainer)}

    # Interrupted and taken up again: dropout's random numbers and the order of the rows, too.
    whole = Trainer(model("BertForMaskedLM", True), TrainingArguments(**options("whole")), train_dataset=rows())
    whole.train()
    saving = {"save_strategy": "steps", "save_steps": STEPS // 2}
    Trainer(
        model("BertForMaskedLM", True), TrainingArguments(**options("resumed", **saving)), train_dataset=rows()
    ).train()
    torch.manual_seed(99)  # what the process drew before is not what counts
    resumed = Trainer(model("BertForMaskedLM", True), TrainingArguments(**options("resumed")), train_dataset=rows())
    resumed.train(resume_from_checkpoint=str(FOLDER / "resumed" / f"checkpoint-{STEPS // 2}"))
    found["resumed"] = {
        "whole": weights(whole),
        "resumed": weights(resumed),
        "losses": logged(whole),
        "after": logged(resumed),
    }

    classes = rows(classes=True)
    best = TrainingArguments(
        **options(
            "best",
            eval_strategy="steps",
            eval_steps=2,
            save_strategy="steps",
            save_steps=2,
            save_total_limit=1,
            load_best_model_at_end=True,
            metric_for_best_model="accuracy",
        )
    )
    classifier = Trainer(
        model("RobertaForSequenceClassification"),
        best,
        train_dataset=classes,
        eval_dataset=classes[:10],
        compute_metrics=lambda p: {"accuracy": float((p.predictions.argmax(-1) == p.label_ids).mean())},
    )
    classifier.train()
    evaluated = classifier.evaluate()
    predicted = classifier.predict(classes[:6])
    found["evaluation"] = {
        "accuracy": evaluated["eval_accuracy"],
        "loss": evaluated["eval_loss"],
        "predictions": predicted.predictions.tolist(),
        "best": classifier.state.best_metric,
    }

    arguments = Seq2SeqTrainingArguments(**options("sequences", predict_with_generate=True, generation_max_length=8))
    pairs = rows(labels=6)
    seq2seq = Seq2SeqTrainer(
        model("T5ForConditionalGeneration"), arguments, train_dataset=pairs, eval_dataset=pairs[:4]
    )
    seq2seq.train()
    found["sequences"] = {"losses": logged(seq2seq), "tokens": seq2seq.predict(pairs[:4]).predictions.tolist()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
