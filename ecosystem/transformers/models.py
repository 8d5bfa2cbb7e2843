"""The models of this lane: class, tiny configuration and kind of inputs, fixed here so that runs compare."""

from typing import Any, NamedTuple

VOCABULARY = 99
_TOKENS = {"vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
TEXT = _TOKENS | _SIZES | {"max_position_embeddings": 64}
_GROUPED = TEXT | {"num_key_value_heads": 2}
_SEQ2SEQ = _TOKENS | {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64,
    "decoder_start_token_id": 2, "forced_eos_token_id": None,
}  # fmt: skip
_T5 = _TOKENS | {
    "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "relative_attention_num_buckets": 8,
    "decoder_start_token_id": 0,
}  # fmt: skip
_IMAGE = _SIZES | {"image_size": 32, "patch_size": 8, "num_labels": 4}
_SPEECH = _TOKENS | _SIZES | {
    "conv_dim": (16, 16, 16), "conv_stride": (5, 4, 4), "conv_kernel": (10, 4, 4), "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2, "num_feat_extract_layers": 3, "apply_spec_augment": False, "layerdrop": 0.0,
}  # fmt: skip
_TWO: dict[str, dict[str, Any]] = {
    "text_config": TEXT | {"projection_dim": 16, "max_position_embeddings": 32},
    "vision_config": _SIZES | {"image_size": 32, "patch_size": 8, "projection_dim": 16},
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


TEXT_DECODERS = (
    Model("GPT2LMHeadModel", "causal", _TOKENS | {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}, True),
    Model("GPTNeoXForCausalLM", "causal", TEXT, True),
    Model("OPTForCausalLM", "causal", TEXT | {"ffn_dim": 64, "word_embed_proj_dim": 32}, True),
    Model("BloomForCausalLM", "causal", _TOKENS | {"hidden_size": 32, "n_layer": 2, "n_head": 4}, True),
    Model("LlamaForCausalLM", "causal", _GROUPED, True),
    Model("MistralForCausalLM", "causal", _GROUPED | {"sliding_window": 8}, True),
    Model("Qwen3ForCausalLM", "causal", _GROUPED | {"head_dim": 8}, True),
    Model("Gemma3ForCausalLM", "causal", _GROUPED | {"head_dim": 8, "sliding_window": 8}, True),
    Model("FalconForCausalLM", "causal", _TOKENS | _SIZES, True),
    Model("Phi3ForCausalLM", "causal", _GROUPED | {"sliding_window": None}, True),
)
_MIXED = _GROUPED | {"num_experts": 4, "num_experts_per_tok": 2}
MIXTURES = (
    Model("MixtralForCausalLM", "causal", _GROUPED | {"num_local_experts": 4, "output_router_logits": True}, True),
    Model("Qwen2MoeForCausalLM", "causal",
          _MIXED | {"moe_intermediate_size": 16, "shared_expert_intermediate_size": 16}, True),
    Model("OlmoeForCausalLM", "causal", _MIXED, True),
    Model("DeepseekV3ForCausalLM", "causal", TEXT | {
        "n_routed_experts": 4, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2, "first_k_dense_replace": 1,
        "moe_intermediate_size": 16, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8, "v_head_dim": 8, "num_key_value_heads": 4,
    }, True),
    Model("GptOssForCausalLM", "causal",
          _GROUPED | {"head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2}, True),
)  # fmt: skip
_STATES = _TOKENS | {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}
STATE_SPACES = (
    Model("MambaForCausalLM", "causal", _STATES, True),
    Model("Mamba2ForCausalLM", "causal", _STATES | {
        "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 8, "time_step_limit": (0.0, 10.0),
    }, True),
    Model("JambaForCausalLM", "causal", _GROUPED | {
        "num_experts": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 8, "mamba_dt_rank": 4,
    }, True),
    Model("RecurrentGemmaForCausalLM", "causal", _TOKENS | _SIZES | {
        "num_hidden_layers": 3, "num_key_value_heads": 1, "attention_window_size": 16, "lru_width": 32,
    }, True),
)  # fmt: skip
TEXT_ENCODERS = (
    Model("BertForMaskedLM", "causal", TEXT),
    Model("RobertaForSequenceClassification", "classified", TEXT | {"num_labels": 4}),
    Model("DistilBertForTokenClassification", "tagged",
          _TOKENS | {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}),
    Model("ElectraForQuestionAnswering", "questions", TEXT | {"embedding_size": 16}),
    Model("DebertaV2ForMaskedLM", "causal",
          TEXT | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False}),
    Model("AlbertForMaskedLM", "causal", TEXT | {"embedding_size": 16}),
    Model("ModernBertForMaskedLM", "causal", TEXT | {"cls_token_id": 1, "sep_token_id": 2, "local_attention": 8}),
    Model("LongformerForMaskedLM", "causal", TEXT | {"attention_window": 4, "pad_token_id": 1, "bos_token_id": 0}),
)  # fmt: skip
ENCODER_DECODERS = (
    Model("T5ForConditionalGeneration", "sequences", _T5, True),
    Model("BartForConditionalGeneration", "sequences", _SEQ2SEQ, True),
    Model("MarianMTModel", "sequences", _SEQ2SEQ, True),
    Model("PegasusForConditionalGeneration", "sequences", _SEQ2SEQ, True),
    Model("SwitchTransformersForConditionalGeneration", "sequences", _T5 | {
        "num_decoder_layers": 2, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1, "num_experts": 4,
    }, True),
)  # fmt: skip
VISION = (
    Model("ViTForImageClassification", "images", _IMAGE),
    Model("SwinForImageClassification", "images", {
        "image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [1, 2], "num_heads": [2, 4], "window_size": 4,
        "num_labels": 4,
    }),
    Model("ConvNextForImageClassification", "images",
          {"hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 2, 1], "num_labels": 4}),
    Model("BeitForImageClassification", "images", _IMAGE | {"use_relative_position_bias": True}),
    Model("Dinov2ForImageClassification", "images", _IMAGE),
    Model("ResNetForImageClassification", "images",
          {"embedding_size": 8, "hidden_sizes": [8, 16, 32, 32], "depths": [1, 1, 2, 1], "num_labels": 4}),
    Model("SegformerForSemanticSegmentation", "segments", {
        "num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [4, 2], "hidden_sizes": [8, 16], "patch_sizes": [7, 3],
        "strides": [4, 2], "num_attention_heads": [1, 2], "mlp_ratios": [2, 2], "decoder_hidden_size": 16,
        "num_labels": 4,
    }),
    Model("YolosForObjectDetection", "boxes",
          _SIZES | {"image_size": [32, 32], "patch_size": 8, "num_detection_tokens": 5, "num_labels": 4}),
)  # fmt: skip
AUDIO = (
    Model("Wav2Vec2ForCTC", "speech", _SPEECH),
    Model("HubertForSequenceClassification", "sounds", _SPEECH | {"num_labels": 4, "classifier_proj_size": 16}),
    Model("WhisperForConditionalGeneration", "features", _SEQ2SEQ | {
        "num_mel_bins": 16, "max_source_positions": 20, "max_target_positions": 40, "begin_suppress_tokens": None,
    }, True),
    Model("ASTForAudioClassification", "spectrograms", _SIZES | {
        "max_length": 24, "num_mel_bins": 16, "patch_size": 8, "frequency_stride": 8, "time_stride": 8, "num_labels": 4,
    }),
)  # fmt: skip
SEVERAL_KINDS = (
    Model("CLIPModel", "pairs", _TWO | {"projection_dim": 16}),
    Model("SiglipModel", "pairs", _TWO),
    Model("LlavaForConditionalGeneration", "captions", {
        "text_config": _GROUPED | {"model_type": "llama"}, "image_token_index": 98, "image_seq_length": 16,
        "vision_config": _TWO["vision_config"] | {"model_type": "clip_vision_model"},
    }, True),
    Model("PatchTSTForPrediction", "series", {
        "num_input_channels": 2, "context_length": 32, "patch_length": 8, "patch_stride": 8, "prediction_length": 8,
        "d_model": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 64,
    }),
)  # fmt: skip
MODELS = (
    *TEXT_DECODERS, *MIXTURES, *STATE_SPACES, *TEXT_ENCODERS, *ENCODER_DECODERS, *VISION, *AUDIO, *SEVERAL_KINDS,
)  # fmt: skip
GENERATIVE = tuple(model for model in MODELS if model.generates)
