"""What a rank does in these tests: trains a small GPT with DeepSpeed, on the accelerator that DS_ACCELERATOR names.

Also the model and the configurations, for tests and for the lane `deepspeed`.
"""

import contextlib
import copy
import importlib
import os
import warnings
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F

from tests.distributed import ranks

# The reference: the same DeepSpeed on PyTorch alone.
CPU = {"DS_ACCELERATOR": "cpu", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
if "TORCH_EXTENSIONS_DIR" in os.environ:
    # DeepSpeed's operators for the two have the same names and other options: each would be compiled again and again.
    CPU["TORCH_EXTENSIONS_DIR"] = os.environ["TORCH_EXTENSIONS_DIR"] + "-cpu"
HPU = {"DS_ACCELERATOR": "hpu"}
CHARACTERS = 50
# How far losses may be from the reference's, relative.
TOLERANCE = {"fp32": 1e-4, "bf16": 1e-2, "fp16": 1e-2}
# A model with tensors that DeepSpeed writes to files, which it does from 1 MiB on, also of a quarter of them.
LARGE = {"layers": 1, "width": 1024}
# Modules in which DeepSpeed keeps groups, buffers and counters of the job.
_STATEFUL = (
    "deepspeed.comm.comm",
    "deepspeed.utils.groups",
    "deepspeed.runtime.activation_checkpointing.checkpointing",
    "deepspeed.runtime.zero.partition_parameters",
    "deepspeed.runtime.zero.parameter_offload",
    "deepspeed.runtime.pipe.p2p",
)
_KEPT: dict[str, dict[str, Any]] = {}


def on_cpu(function: Any, *args: Any, size: int = 2, **kwargs: Any) -> list[Any]:
    """What a function returns in each rank of a job on DeepSpeed's CPU accelerator."""
    return ranks.call(function, *args, size=size, backend="gloo", variables=CPU, **kwargs)


def on_hpu(function: Any, *args: Any, size: int = 2, mode: dict[str, str] = {}, **kwargs: Any) -> list[Any]:  # noqa: B006
    """The same on hpu, over hccl, in eager mode or in that of these environment variables."""
    return ranks.call(function, *args, size=size, backend="hccl", variables=HPU | mode, **kwargs)


def config(stage: int, precision: str = "fp32", **more: Any) -> dict[str, Any]:
    """A configuration with AdamW, as DeepSpeed's documents write it; `more` replaces its entries."""
    made: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 2,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.01}},
        "zero_optimization": {"stage": stage, "reduce_bucket_size": 10000, "allgather_bucket_size": 10000}
        | ({"stage3_prefetch_bucket_size": 10000, "stage3_param_persistence_threshold": 100} if stage == 3 else {}),
        "steps_per_print": 1 << 30,
        "wall_clock_breakdown": False,
    }
    if precision == "bf16":
        made["bf16"] = {"enabled": True}
    if precision == "fp16":
        made["fp16"] = {"enabled": True, "initial_scale_power": 10}
    return made | more


class Block(torch.nn.Module):
    """Causal attention and a feed-forward layer, each behind a layer norm and beside a residual connection."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1 = torch.nn.LayerNorm(width)
        self.norm2 = torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.project = torch.nn.Linear(width, width)
        self.wide = torch.nn.Linear(width, 4 * width)
        self.narrow = torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: batch, context, width."""
        parts = self.qkv(self.norm1(x)).unflatten(2, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(attended.transpose(1, 2).flatten(2))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x))))


class GPT(torch.nn.Module):
    """Two heads, pieces of 16 characters. Imports nothing of hpu's, so that it is the CPU's as well."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.token = torch.nn.Embedding(CHARACTERS, width)
        self.position = torch.nn.Embedding(16, width)
        self.blocks = torch.nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, CHARACTERS)

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        """Scores of the next character at each position of `numbers` (batch, 16)."""
        x = self.token(numbers) + self.position(torch.arange(16, device=numbers.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def model(layers: int = 2, width: int = 32, seed: int = 1) -> GPT:
    """The same on each rank."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return GPT(layers, width)


def batches(number: int, rows: int = 2, seed: int = 0) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Pieces of a text that can be learned, other ones on each rank."""
    generator = torch.Generator().manual_seed(1000 * seed + (dist.get_rank() if dist.is_initialized() else 0))
    for _ in range(number):
        starts = torch.randint(CHARACTERS, (rows, 1), generator=generator)
        text = (starts + 3 * torch.arange(17)) % CHARACTERS
        yield text[:, :-1].contiguous(), text[:, 1:].contiguous()


def loss_of(engine: Any, numbers: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
    """The mean cross-entropy, in float32."""
    scores = engine(numbers.to(engine.device))
    return F.cross_entropy(scores.float().flatten(0, 1), following.to(engine.device).flatten())


@contextlib.contextmanager
def deepspeed_alone() -> Iterator[Any]:
    """DeepSpeed, as after its import; what the job leaves in its modules is forgotten."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its import
        deepspeed = importlib.import_module("deepspeed")
    deepspeed.utils.logger.setLevel("ERROR")
    # The CPU accelerator's reductions through shared memory would be compiled for a minute; Gloo has them.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    if not _KEPT:
        for name in _STATEFUL:
            _KEPT[name] = _values(importlib.import_module(name))
    linear = F.linear
    try:
        deepspeed.init_distributed()
        yield deepspeed
    finally:
        # ZeRO 3 puts its own in place, once and for good.
        F.linear = linear
        replaces = deepspeed.runtime.zero.partition_parameters.InsertPostInitMethodToModuleSubClasses
        if hasattr(replaces, "linear_bk"):
            del replaces.linear_bk
        for name, values in _KEPT.items():
            vars(importlib.import_module(name)).update({key: copy.copy(value) for key, value in values.items()})


@contextlib.contextmanager
def engine_of(settings: dict[str, Any], net: torch.nn.Module | None = None) -> Iterator[Any]:
    """DeepSpeed's engine for a model with a configuration."""
    with deepspeed_alone() as deepspeed:
        net = model() if net is None else net
        engine, *_ = deepspeed.initialize(model=net, model_parameters=net.parameters(), config=copy.deepcopy(settings))
        yield engine
        engine.destroy()


def _values(module: Any) -> dict[str, Any]:
    plain = (type(None), bool, int, float, str, list, dict, set, tuple)
    return {
        name: copy.copy(value)
        for name, value in vars(module).items()
        if isinstance(value, plain) and not (name.startswith("__") and name.endswith("__"))
    }


def steps(engine: Any, number: int, seed: int = 0) -> list[float]:
    """Losses of so many micro batches, each this rank's own."""
    losses = []
    for numbers, following in batches(number, engine.train_micro_batch_size_per_gpu(), seed):
        loss = loss_of(engine, numbers, following)
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    return losses


def train(settings: dict[str, Any], number: int = 6, **made: Any) -> list[float]:
    """Losses of `number` micro batches with a configuration."""
    with engine_of(settings, model(**made)) as engine:
        return steps(engine, number)
