"""Trainings: what both trainers are told, and what GaudiTrainer alone is, of its configuration and its arguments."""

from dataclasses import dataclass, field

STEPS = 6
LENGTH = 8  # of generated sequences


@dataclass(frozen=True)
class Case:
    """A training: arguments that differ from the usual ones."""

    both: dict[str, object] = field(default_factory=dict)  # of both trainers
    configuration: dict[str, object] = field(default_factory=dict)  # of GaudiConfig
    own: dict[str, object] = field(default_factory=dict)  # of GaudiTrainingArguments


_FUSED_ADAM: dict[str, object] = {"use_fused_adam": True}
CASES = {
    "plain": Case(),
    "fused": Case(both={"max_grad_norm": 0.5}, configuration={**_FUSED_ADAM, "use_fused_clip_norm": True}),
    "accumulation": Case(both={"gradient_accumulation_steps": 2}, configuration=_FUSED_ADAM),
    "checkpointing": Case(both={"gradient_checkpointing": True}, configuration=_FUSED_ADAM),
    "bfloat16": Case(both={"bf16": True}, configuration={"use_torch_autocast": True, **_FUSED_ADAM}),
    "graphs": Case(configuration=_FUSED_ADAM, own={"use_hpu_graphs_for_training": True}),
    "throughput": Case(own={"throughput_warmup_steps": 2, "non_blocking_data_copy": True}),
}
BFLOAT16 = {"bfloat16"}
LAZY_ONLY = {"use_hpu_graphs_for_training", "use_hpu_graphs_for_inference"}
