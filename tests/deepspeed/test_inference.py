"""`deepspeed.init_inference`: on one device, parted by itself or by a policy, with injected kernels, in HPU graphs."""

import contextlib

import pytest
import torch
from torch import nn

from tests.deepspeed import training
from tests.deepspeed.training import on_hpu

WORDS = 128
LAZY = {"PT_HPU_LAZY_MODE": "1", "PT_HPU_ENABLE_LAZY_COLLECTIVES": "true"}


class Block(nn.Module):
    """A layer whose two pairs of matrices can be parted: columns, then rows, whose parts are summed."""

    def __init__(self, width=32):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.first = nn.LayerNorm(width)
        self.second = nn.LayerNorm(width)
        self.width = width

    def forward(self, x):
        y = self.first(x)
        q, k, v = (layer(y).unflatten(-1, (-1, 8)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(self.up(self.second(x)).relu())


class Net(nn.Module):
    """A model of nobody's library."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, 32)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.last = nn.Linear(32, WORDS)

    def forward(self, numbers):
        x = self.words(numbers)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def made(name):
    """The same tiny model in each process, with random weights."""
    torch.manual_seed(1)
    if name == "own":
        return Net().eval()
    import transformers as hf

    sizes = {"vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    wide = sizes | {"intermediate_size": 256, "max_position_embeddings": 64}
    if name == "bert":
        return hf.BertForMaskedLM(hf.BertConfig(**wide, pad_token_id=0)).eval()
    config = {
        "llama": lambda: hf.LlamaConfig(**wide, **tokens, num_key_value_heads=4),
        "grouped": lambda: hf.LlamaConfig(**wide, **tokens, num_key_value_heads=2),
        "opt": lambda: hf.OPTConfig(**sizes, **tokens, ffn_dim=256, word_embed_proj_dim=32, max_position_embeddings=64),
        "neox": lambda: hf.GPTNeoXConfig(**wide, **tokens),
        "gpt2": lambda: hf.GPT2Config(
            vocab_size=WORDS, n_embd=32, n_layer=2, n_head=4, n_positions=64, use_cache=False
        ),
    }[name]()
    return hf.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()


def numbers(rows=2, columns=8, seed=3):
    return torch.randint(3, WORDS, (rows, columns), generator=torch.Generator().manual_seed(seed))


def scores(model, given):
    with torch.no_grad():
        found = model(given)
    return (found if isinstance(found, torch.Tensor) else found.logits).float().cpu()


def expected(name, dtype=torch.float32):
    """What PyTorch computes on the CPU."""
    return scores(made(name).to(dtype), numbers())


@contextlib.contextmanager
def inference(name, policy=None, **arguments):
    """The engine that init_inference makes of a model."""
    with training.deepspeed_alone() as deepspeed:
        deepspeed.InferenceEngine.inference_mp_group = None  # that of the job before
        if policy:
            arguments["injection_policy"] = policies()[policy]
        yield deepspeed.init_inference(made(name), **arguments)


def inferred(name, graphs=False, policy=None, **arguments):
    """What each rank's engine computes, how many of its layers are parted, and how many graphs were replayed."""
    import openhpu

    with inference(name, policy, **arguments) as engine:
        if graphs:
            import habana_frameworks.torch as ht

            engine.module = ht.hpu.wrap_in_hpu_graph(engine.module)
        before = openhpu.counters()["graph_replays"]
        found = [scores(engine, numbers(seed=seed).to("hpu")) for seed in ((1, 2, 3) if graphs else (3,))]
        parted = sum(
            type(layer).__name__.startswith(("Linear", "LmHead", "fused")) and type(layer) is not nn.Linear
            for layer in engine.module.modules()
        )
        return found[-1].tolist(), parted, openhpu.counters()["graph_replays"] - before


def generated(**arguments):
    """What each rank's engine writes, greedily."""
    with inference("llama", dtype=torch.float, **arguments) as engine:
        return engine.generate(numbers().to("hpu"), max_new_tokens=8, do_sample=False).tolist()


def compiled(**arguments):
    """What each rank's engine computes after `compile`, whose backend is hpu's."""
    with inference("own", "own", **arguments) as engine:
        engine.compile()
        assert engine.is_compiled
        return [scores(engine, numbers(seed=seed).to("hpu")).tolist() for seed in (1, 2, 3)][-1]


def refused(**arguments):
    """The error of init_inference."""
    with pytest.raises(Exception) as error, inference("own", **arguments):
        pass
    return f"{error.type.__name__}: {error.value}"


def policies():
    import transformers.models.bert.modeling_bert as bert

    return {"own": {Block: (".out", ".down")}, "bert": {bert.BertLayer: ("attention.output.dense", "output.dense")}}


def close(found, wanted, rtol=1e-4, atol=1e-5):
    torch.testing.assert_close(torch.tensor(found), wanted, rtol=rtol, atol=atol)


@pytest.mark.parametrize(
    ("name", "least", "policy"),
    [
        ("llama", 8, None),
        ("grouped", 8, None),
        ("opt", 8, None),
        ("neox", 8, None),
        ("own", 12, "own"),
        ("bert", 12, "bert"),
    ],
)
def test_parted_by_itself_or_by_a_policy(name, least, policy):
    arguments = {"policy": policy, "dtype": torch.float, "tensor_parallel": {"tp_size": 2}}
    for found, parted, _ in on_hpu(inferred, name, **arguments):
        assert parted >= least
        close(found, expected(name))


def test_injected_kernels():
    for found, _, _ in on_hpu(
        inferred,
        "gpt2",
        dtype=torch.float,
        tensor_parallel={"tp_size": 2},
        replace_with_kernel_inject=True,
        max_out_tokens=64,
        return_tuple=False,
    ):
        close(found, expected("gpt2"))


@pytest.mark.parametrize("mode", [{}, LAZY], ids=["eager", "lazy"])
@pytest.mark.parametrize(("name", "policy"), [("own", "own"), ("llama", None)])
def test_in_graphs(name, policy, mode):
    """`enable_cuda_graph`, which DeepSpeed refuses on several devices, is what libraries pass beside."""
    arguments = {"dtype": torch.float, "tensor_parallel": {"tp_size": 2}, "enable_cuda_graph": True}
    for found, parted, replays in on_hpu(inferred, name, graphs=True, policy=policy, mode=mode, **arguments):
        assert parted
        assert replays == 3
        close(found, expected(name))


def test_generation():
    plain = made("llama").generate(numbers(), max_new_tokens=8, do_sample=False)
    for found in on_hpu(generated, tensor_parallel={"tp_size": 2}):
        assert found == plain.tolist()


def test_compiled():
    for found in on_hpu(compiled, dtype=torch.float, tensor_parallel={"tp_size": 2}):
        close(found, expected("own"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dtype": torch.int8}, "ValueError: Data type torch.int8 is not supported by hpu"),
        ({"dtype": torch.float, "tensor_parallel": {"tp_size": 4}}, "ValueError: "),  # of two ranks
    ],
)
def test_wrong_arguments(arguments, message):
    for error in on_hpu(refused, **arguments):
        assert message in error
