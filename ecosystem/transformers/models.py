"""The models of this lane: class, kind of inputs and tiny configuration, fixed in models.tsv so that runs compare.

A configuration has the sizes of those that it is `like`, and its own.
"""

import json
from pathlib import Path
from typing import Any, Literal, NamedTuple

from openhpu.settings import tables

VOCABULARY = 99
_TOKENS = {"vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
TEXT = _TOKENS | _SIZES | {"max_position_embeddings": 64}
_GROUPED = TEXT | {"num_key_value_heads": 2}
_SEQ2SEQ = _TOKENS | {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 64,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
}
_T5 = _TOKENS | {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "decoder_start_token_id": 0,
}
_IMAGE = _SIZES | {"image_size": 32, "patch_size": 8, "num_labels": 4}
_SPEECH = (
    _TOKENS
    | _SIZES
    | {
        "conv_dim": (16, 16, 16),
        "conv_stride": (5, 4, 4),
        "conv_kernel": (10, 4, 4),
        "num_conv_pos_embeddings": 16,
        "num_conv_pos_embedding_groups": 2,
        "num_feat_extract_layers": 3,
        "apply_spec_augment": False,
        "layerdrop": 0.0,
    }
)
_TWO: dict[str, dict[str, Any]] = {
    "text_config": TEXT | {"projection_dim": 16, "max_position_embeddings": 32},
    "vision_config": _SIZES | {"image_size": 32, "patch_size": 8, "projection_dim": 16},
}
_MIXED = _GROUPED | {"num_experts": 4, "num_experts_per_tok": 2}
_STATES = _TOKENS | {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}
_LLAVA = {
    "text_config": _GROUPED | {"model_type": "llama"},
    "image_token_index": 98,
    "image_seq_length": 16,
    "vision_config": _TWO["vision_config"] | {"model_type": "clip_vision_model"},
}
_LIKE: dict[str, dict[str, Any]] = {
    "tokens": _TOKENS,
    "sizes": _SIZES,
    "text": TEXT,
    "grouped": _GROUPED,
    "seq2seq": _SEQ2SEQ,
    "t5": _T5,
    "image": _IMAGE,
    "speech": _SPEECH,
    "two": _TWO,
    "mixed": _MIXED,
    "states": _STATES,
    "llava": _LLAVA,
}


class Model(NamedTuple):
    """A class of transformers and what it is made and called with."""

    name: str
    inputs: str  # a row of inputs.py
    config: dict[str, Any]
    generates: bool = False

    @property
    def key(self) -> str:
        """Its name in tests."""
        return (
            self.name.removesuffix("ForConditionalGeneration").removesuffix("LMHeadModel").removesuffix("ForCausalLM")
        )


class Row(NamedTuple):
    """A row of the file. `config`: JSON."""

    name: str
    inputs: str
    generates: Literal["yes", ""] = ""
    like: tuple[str, ...] = ()
    config: str = "{}"


def _model(row: Row) -> Model:
    config: dict[str, Any] = {}
    for other in row.like:
        config |= _LIKE[other]
    return Model(row.name, row.inputs, config | json.loads(row.config), bool(row.generates))


TABLE = Path(__file__).with_suffix(".tsv")
MODELS = tuple(_model(row) for row in tables.read(TABLE, Row, unique="name"))
GENERATIVE = tuple(model for model in MODELS if model.generates)
