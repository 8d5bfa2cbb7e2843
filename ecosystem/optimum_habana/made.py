"""`python -m ecosystem.optimum_habana.made FOLDER`: small models, data and metrics for the commands of examples.toml.

The commands name models and data of a hub. Here the same files are made by hand: models with random weights, a
tokenizer of a few words, data of a few rows, and metrics, which `evaluate` finds by their folders beside the script's.
"""

import io
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ecosystem import words

KNOWN = [word for word in words.WORDS if word.isalpha()]
LENGTH = 128  # of a sequence, in words
CONFIGURATION = {"use_fused_adam": True, "use_fused_clip_norm": True, "use_torch_autocast": True}
SAMPLES_PER_S = 16_000
SIDE = 32  # of images, in pixels
LAST = "deepspeed.json"  # the file that is written last
_SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


def sentence(length: int, chosen: random.Random) -> str:
    """So many words that the tokenizer knows."""
    return " ".join(chosen.choice(KNOWN) for _ in range(length))


def _saved(folder: Path, kind: str, **changes: Any) -> None:
    """Save a model of transformers' class `kind`, with random weights."""
    import transformers

    torch.manual_seed(0)
    model = getattr(transformers, kind)
    configuration = model.config_class(pad_token_id=0, bos_token_id=1, eos_token_id=2, **changes)
    model(configuration).save_pretrained(folder)
    (folder / "gaudi_config.json").write_text(json.dumps(CONFIGURATION))


def _vocabulary(folder: Path, entries: list[str]) -> tuple[str, str]:
    """The two files of a tokenizer that merges bytes or letters, and here merges nothing."""
    listed = folder / "words"
    listed.mkdir(parents=True, exist_ok=True)
    vocabulary, merges = listed / "vocab.json", listed / "merges.txt"
    vocabulary.write_text(json.dumps({entry: number for number, entry in enumerate(entries)}))
    merges.write_text("#version: 0.2\n")
    return str(vocabulary), str(merges)


def text_models(folder: Path) -> None:
    """GPT-2, Llama, BERT, RoBERTa and T5, each with its tokenizer."""
    llama = _SMALL | {"num_key_value_heads": 2, "max_position_embeddings": 256}
    models: dict[str, tuple[str, dict[str, Any]]] = {
        "gpt2": ("GPT2LMHeadModel", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256}),
        "llama": ("LlamaForCausalLM", llama),
        "qwen2": ("Qwen2ForCausalLM", llama),
        "mixtral": ("MixtralForCausalLM", llama | {"num_local_experts": 4}),
        "bert": ("BertForMaskedLM", _SMALL | {"max_position_embeddings": 256}),
        "roberta": ("RobertaForMaskedLM", _SMALL | {"max_position_embeddings": 260}),
        "t5": ("T5ForConditionalGeneration", {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}),
    }
    for name, (kind, changes) in models.items():
        more = {"decoder_start_token_id": 0} if name == "t5" else {}
        _saved(folder / name, kind, vocab_size=words.SIZE, **changes, **more)
        words.tokenizer(LENGTH, pairs=False).save_pretrained(folder / name)


def other_models(folder: Path) -> None:
    """ViT, wav2vec2 and Whisper, each with what prepares its inputs."""
    import tokenizers
    import transformers

    vision = {"image_size": SIDE, "patch_size": 8}
    _saved(folder / "vit", "ViTForImageClassification", **_SMALL, **vision)
    transformers.ViTImageProcessor(size={"height": SIDE, "width": SIDE}).save_pretrained(folder / "vit")

    layers = {"conv_dim": [16] * 3, "conv_stride": [5, 4, 4], "conv_kernel": [10, 8, 8], "conv_bias": True}
    positions = {"num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2, "do_stable_layer_norm": True}
    masks = {"mask_time_prob": 0.05, "feat_extract_norm": "layer"}  # above 0: its weight is in the file
    # Without a head: that of the speech has as many letters as the texts.
    _saved(folder / "wav2vec2", "Wav2Vec2Model", **_SMALL, **layers, **positions, **masks)
    transformers.Wav2Vec2FeatureExtractor(return_attention_mask=False).save_pretrained(folder / "wav2vec2")

    depth = {"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
    widths = {"d_model": 32, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "num_mel_bins": 80}
    lengths = {"max_source_positions": 1500, "max_target_positions": 128, "decoder_start_token_id": 1}
    kind = "WhisperForConditionalGeneration"
    # Its processor takes no other tokenizer than its own, which has single bytes and what begins a text.
    special = ["<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>"]
    entries = [*special, *sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())]
    _saved(folder / "whisper", kind, vocab_size=len(entries), **depth, **widths, **lengths)
    tokenizer = transformers.WhisperTokenizerFast(*_vocabulary(folder, entries), pad_token=special[0])
    extractor = transformers.WhisperFeatureExtractor()
    transformers.WhisperProcessor(extractor, tokenizer).save_pretrained(folder / "whisper")


def hub(folder: Path) -> None:
    """wav2vec2 as `made/wav2vec2` in a hub's cache: the script of CTC takes a folder for a checkpoint to go on from."""
    place = folder / "hub" / "hub" / "models--made--wav2vec2"
    commit = "0" * 40
    for part in ("refs", "snapshots"):
        (place / part).mkdir(parents=True, exist_ok=True)
    (place / "refs" / "main").write_text(commit)
    (place / "snapshots" / commit).symlink_to(folder.resolve() / "wav2vec2")


def diffusion(folder: Path) -> None:
    """A pipeline of Stable Diffusion, version 1."""
    import diffusers
    import transformers

    torch.manual_seed(0)
    text = transformers.CLIPTextConfig(
        vocab_size=100, max_position_embeddings=77, bos_token_id=0, eos_token_id=1, pad_token_id=1, **_SMALL
    )
    blocks = {"block_out_channels": (32, 64), "norm_num_groups": 8}
    unet = diffusers.UNet2DConditionModel(
        sample_size=8,
        layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=32,
        attention_head_dim=4,
        **blocks,
    )
    decoder = diffusers.AutoencoderKL(
        down_block_types=("DownEncoderBlock2D", "DownEncoderBlock2D"),
        up_block_types=("UpDecoderBlock2D", "UpDecoderBlock2D"),
        latent_channels=4,
        sample_size=16,
        **blocks,
    )
    letters = [*(chr(code) for code in range(97, 123))]
    entries = ["<|startoftext|>", "<|endoftext|>", *letters, *(f"{letter}</w>" for letter in letters)]
    diffusers.StableDiffusionPipeline(
        vae=decoder,
        text_encoder=transformers.CLIPTextModel(text),
        tokenizer=transformers.CLIPTokenizer(
            *_vocabulary(folder, entries), unk_token="<|endoftext|>", model_max_length=77
        ),
        unet=unet,
        scheduler=diffusers.PNDMScheduler(beta_start=0.00085, beta_end=0.012, skip_prk_steps=True, steps_offset=1),
        safety_checker=None,
        feature_extractor=None,
    ).save_pretrained(folder / "diffusion")
    (folder / "diffusion" / "gaudi_config.json").write_text(json.dumps(CONFIGURATION))


def _rows(chosen: random.Random, number: int, row: Callable[[int], dict[str, Any]], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row(index)) + "\n" for index in range(number)))


def texts(folder: Path) -> None:
    """Texts, pairs of sentences with a label, questions, and pairs to translate or to summarise."""
    chosen = random.Random(0)

    def question(index: int) -> dict[str, Any]:
        context = sentence(12, chosen)
        word = context.split()[index % 12]
        answers = {"text": [word], "answer_start": [context.index(word)]}
        return {"id": str(index), "title": "", "context": context, "question": sentence(4, chosen), "answers": answers}

    def pair(index: int) -> dict[str, Any]:
        return {"sentence1": sentence(5, chosen), "sentence2": sentence(5, chosen), "label": index % 2}

    def translated(index: int) -> dict[str, Any]:
        return {"translation": {"en": sentence(5, chosen), "ro": sentence(5, chosen)}}

    def summarised(index: int) -> dict[str, Any]:
        return {"text": sentence(12, chosen), "summary": sentence(3, chosen)}

    def instruction(index: int) -> dict[str, Any]:
        return {"instruction": sentence(4, chosen), "input": sentence(3, chosen), "output": sentence(4, chosen)}

    kinds = {
        "pairs": pair,
        "questions": question,
        "translations": translated,
        "summaries": summarised,
        "instructions": instruction,
    }
    for name, row in kinds.items():
        for part, number in (("train", 32), ("validation", 8)):
            _rows(chosen, number, row, folder / name / f"{part}.json")
    for part, number in (("train", 64), ("validation", 32)):
        path = folder / "texts" / f"{part}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(sentence(30, chosen) + "\n" for _ in range(number)))
    # SQuAD's files have their rows in a field.
    for part in ("train", "validation"):
        rows = [json.loads(line) for line in (folder / "questions" / f"{part}.json").read_text().splitlines()]
        (folder / "questions" / f"{part}.json").write_text(json.dumps({"data": rows}))


def pictures(folder: Path) -> None:
    """Images of two classes, in a folder for each: light and dark."""
    from PIL import Image

    chosen = random.Random(0)
    for part, number in (("train", 16), ("validation", 8)):
        for name, level in (("dark", 60), ("light", 190)):
            path = folder / "pictures" / part / name
            path.mkdir(parents=True, exist_ok=True)
            for index in range(number):
                color = tuple(level + chosen.randrange(-40, 40) for _ in range(3))
                Image.new("RGB", (SIDE + 8, SIDE), color).save(path / f"{index}.png")


def sounds(folder: Path) -> None:
    """Half a second of two tones, with a class and a text, in the files that data sets of a hub have: `datasets` writes
    sound by FFmpeg alone, and the scripts read it by soundfile."""
    import pyarrow
    import pyarrow.parquet
    import soundfile

    classes = ["low", "high"]
    kinds = {
        "audio": {"_type": "Audio"},
        "label": {"_type": "ClassLabel", "names": classes},
        "text": {"_type": "Value", "dtype": "string"},
    }
    sound = pyarrow.struct({"bytes": pyarrow.binary(), "path": pyarrow.string()})
    columns = pyarrow.schema(
        {"audio": sound, "label": pyarrow.int64(), "text": pyarrow.string()},
        metadata={"huggingface": json.dumps({"info": {"features": kinds}})},
    )
    (folder / "sounds").mkdir(parents=True, exist_ok=True)
    times = torch.arange(SAMPLES_PER_S // 2) / SAMPLES_PER_S
    for part, number in (("train", 16), ("validation", 8)):
        rows = []
        for index in range(number):
            label = index % 2
            wave = 0.5 * torch.sin(2 * torch.pi * 220 * (1 + label) * times)
            written = io.BytesIO()
            soundfile.write(written, wave.numpy(), SAMPLES_PER_S, format="WAV")
            content = {"bytes": written.getvalue(), "path": f"{index}.wav"}
            rows.append({"audio": content, "label": label, "text": f"a {classes[label]} tone"})
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, columns), folder / "sounds" / f"{part}.parquet")


_METRIC = """
import datasets
import evaluate


class Made(evaluate.Metric):
    def _info(self):
        value = datasets.Value("{kind}")
        found = {{"predictions": {predictions}, "references": {references}}}
        return evaluate.MetricInfo(description="", citation="", features=datasets.Features(found))

    def _compute(self, predictions, references, **more):
        equal = sum({equal} for found, expected in zip(predictions, references))
        share = equal / max(len(predictions), 1)
        return {{"{result}": share}} if "{result}" else share
"""


class Metric(NamedTuple):
    """What a metric is given, by expressions of `evaluate`'s features, when an answer counts, and the name of what it
    returns; without a name it returns the number."""

    kind: str
    predictions: str
    references: str
    equal: str
    result: str


def metrics(folder: Path) -> None:
    """How many predictions equal their references, under the names of metrics that the scripts load."""
    answer = '{"id": datasets.Value("string"), "prediction_text": datasets.Value("string")}'
    texts = '{"text": datasets.Value("string"), "answer_start": datasets.Value("int32")}'
    expected = f'{{"id": datasets.Value("string"), "answers": datasets.Sequence({texts})}}'
    same = "found == expected"
    kinds = {
        "accuracy": Metric("int64", "value", "value", same, "accuracy"),
        "glue": Metric("int64", "value", "value", same, "accuracy"),
        "f1": Metric("int64", "value", "value", same, "f1"),
        "rouge": Metric("string", "value", "value", same, "rouge1"),
        "wer": Metric("string", "value", "value", same, ""),
        "sacrebleu": Metric("string", "value", "datasets.Sequence(value)", "found in expected", "score"),
        "squad": Metric("string", answer, expected, "found['prediction_text'] in expected['answers']['text']", "f1"),
    }
    for name, metric in kinds.items():
        path = folder / "metrics" / name / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_METRIC.format(**metric._asdict()))


def sentences(folder: Path) -> None:
    """NLTK's data for splitting a text into sentences, without abbreviations and other exceptions. The script of
    summaries asks for three places."""
    for place in ("punkt_tab", "tokenizers/punkt", "tokenizers/punkt_tab/english"):
        (folder / "nltk_data" / place).mkdir(parents=True, exist_ok=True)
    for name in ("collocations.tab", "sent_starters.txt", "abbrev_types.txt", "ortho_context.tab"):
        (folder / "nltk_data" / "tokenizers" / "punkt_tab" / "english" / name).write_text("")


def configurations(folder: Path) -> None:
    """DeepSpeed's configuration as optimum-habana's documentation has it."""
    deepspeed = {
        "steps_per_print": 64,
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "bf16": {"enabled": True},
        "gradient_clipping": 1.0,
        "zero_optimization": {"stage": 2, "overlap_comm": False, "contiguous_gradients": False},
    }
    (folder / LAST).write_text(json.dumps(deepspeed))


def main() -> None:
    folder = Path(sys.argv[1])
    for part in (
        text_models,
        other_models,
        hub,
        diffusion,
        texts,
        pictures,
        sounds,
        metrics,
        sentences,
        configurations,
    ):
        part(folder)


if __name__ == "__main__":
    main()
