"""A tokenizer of a few words, built here: nothing is downloaded."""

from typing import Any

SIZE = 99
WORDS = (
    "[PAD]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "[UNK]",
    "a",
    "the",
    "cat",
    "dog",
    "sat",
    "ran",
    "on",
    "mat",
    "house",
    "is",
    "this",
    "example",
    "good",
    "bad",
    "blue",
    "red",
    ".",
    "user",
    "assistant",
    "system",
    "what",
    "which",
    "colour",
)
_CHAT = (
    "{% for m in messages %}{{ m['role'] + ' ' + m['content'] + ' [SEP] ' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant ' }}{% endif %}"
)


def tokenizer(length: int = 60, wrapped: bool = True, pairs: bool = True) -> Any:
    """Transformers' fast tokenizer with SIZE words, of sequences up to `length`.

    `wrapped`: in [CLS] and [SEP]. `pairs`: it also says which token is of the second sequence of a pair
    (token_type_ids), which models of one sequence do not take.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = [*WORDS, *(f"w{number}" for number in range(SIZE - len(WORDS)))]
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if wrapped:
        made.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        unk_token="[UNK]",
        bos_token="[CLS]",
        eos_token="[SEP]",
        model_max_length=length,
        model_input_names=["input_ids", *(["token_type_ids"] if pairs else []), "attention_mask"],
        chat_template=_CHAT,
    )
