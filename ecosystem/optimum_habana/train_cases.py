"""Trainings: what both trainers are told, and what GaudiTrainer alone is, of its configuration and its arguments."""

STEPS = 6
LENGTH = 8  # of generated sequences
# Case: arguments of both, of GaudiConfig, of GaudiTrainingArguments.
CASES: dict[str, tuple[dict[str, object], dict[str, object], dict[str, object]]] = {
    "plain": ({}, {}, {}),
    "fused": ({"max_grad_norm": 0.5}, {"use_fused_adam": True, "use_fused_clip_norm": True}, {}),
    "accumulation": ({"gradient_accumulation_steps": 2}, {"use_fused_adam": True}, {}),
    "checkpointing": ({"gradient_checkpointing": True}, {"use_fused_adam": True}, {}),
    "bfloat16": ({"bf16": True}, {"use_torch_autocast": True, "use_fused_adam": True}, {}),
    "graphs": ({}, {"use_fused_adam": True}, {"use_hpu_graphs_for_training": True}),
    "throughput": ({}, {}, {"throughput_warmup_steps": 2, "non_blocking_data_copy": True}),
}
BFLOAT16 = {"bfloat16"}
LAZY_ONLY = {"use_hpu_graphs_for_training", "use_hpu_graphs_for_inference"}
