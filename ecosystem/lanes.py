"""The lanes: their tests, packages, and exclusions with the reason."""

from typing import NamedTuple

from commands import ROOT


class Run(NamedTuple):
    """One pytest process of a lane."""

    title: str
    tests: tuple[str, ...]  # files, in the lane's sources
    environment: dict[str, str] = {}  # noqa: RUF012
    only: str = ""  # pytest's expression; all if empty


class Lane(NamedTuple):
    """A library's tests."""

    title: str
    runs: tuple[Run, ...]
    packages: tuple[str, ...] = ()  # what `python -m ecosystem lock` finds versions and hashes for
    alone: tuple[str, ...] = ()  # packages whose dependencies are not wanted: what is needed of them is in `packages`
    checkout: str = ""  # a repository of GitHub that has no package; a variable of that name may give its folder
    apart: bool = False  # of the checkout the tests alone are used: the package is in `alone`
    inside: str = ""  # the folder of the checkout that has the tests and their configuration of pytest, pytest.ini
    listed: str = ""  # from there, the workflow of GitHub whose TEST_LIST chooses the tests; `runs` is empty then
    source: str = ""  # the package whose source distribution has the tests; otherwise a folder here
    folder: str = ""  # this project's own tests: they keep its configuration of pytest
    beside: tuple[str, ...] = ()  # folders of packages in the environment that go before it
    left_out: dict[str, str] = {}  # noqa: RUF012  # part of a test's name, why
    expected: dict[str, str] = {}  # noqa: RUF012  # part of a failing test's name, or of its message, why
    torchvision: bool = False  # whether it needs torchvision, which lies beside the environment
    times: str = ""  # the module that measures the lane's steps, where there are steps to measure


EAGER = {"PT_HPU_LAZY_MODE": "0"}
LAZY = {"PT_HPU_LAZY_MODE": "1"}
# Recipes have tests of their own; a run with them is named.
_NODES = {"OPENHPU_COMPILE": "off"}
_COMPILED = {"OPENHPU_COMPILE": "sync"}
_BOTH = (Run("eager", (".",), EAGER), Run("lazy", (".",), LAZY | _NODES))
_HUB = "downloads from a model hub"
_NOT_SHIPPED = "reads files that the source distribution does not ship (examples/, tests/test_configs/)"
_DDP = {"BACKEND": "hccl", "OPENHPU_DEVICE_COUNT": "4", "OMP_NUM_THREADS": "1"}

# Of tests that count modules and start a process for each: as many as a server has, each with the work of a thread.
LISTED = EAGER | {"OPENHPU_DEVICE_COUNT": "8", "OMP_NUM_THREADS": "1", "PYTEST_ADDOPTS": "-p ecosystem.preloaded"}

# Two jobs of four ranks at a time, of which one works; the first of them compiles what it needs.
_RANKS = {"RANKS_MOST": "8", "RANKS_PATIENCE_S": "900"}

# The plugin's unit tests: what takes long or needs what others don't in a process of its own.
_VLLM_FILES = {
    "most files in one process": (
        "kv_offload/offloading_connector/test_metrics.py", "multimodal", "ops/test_depthwise_conv1d_tpc.py",
        "ops/test_hpu_awq.py", "ops/test_hpu_custom_op_registration.py", "ops/test_hpu_fp8.py",
        "ops/test_hpu_fused_moe.py", "ops/test_hpu_gdn_pytorch.py", "ops/test_hpu_gptq.py",
        "ops/test_hpu_row_parallel_linear.py", "sampler", "test_bucketing.py", "test_decode_bucket_hybrid.py",
        "test_defragmentation.py", "test_flags.py", "test_lmcache_monkey.py", "test_minimax_m3_tool_parser.py",
        "test_platform.py", "test_utils.py", "test_vision_resolutions.py",
        "worker/test_ensure_multi_token_decodes_last.py", "worker/test_hpu_input_batch.py",
        "worker/test_hpu_mm_embeddings.py", "worker/test_hpu_mm_prefill_batching.py", "worker/test_moe_gate_sync.py",
        "worker/test_move_remaining_tensors.py",
    ),
    "compressed tensors": ("ops/test_hpu_compressed_tensors.py",),
    "norms": ("ops/test_hpu_layernorm.py",),
    "slices of attention": ("test_fsdpa_slicing.py",),
    "rotary embeddings": ("ops/test_hpu_rotary_embedding.py",),
    "files that name a model of the hub": (
        "kv_offload/offloading_connector/test_scheduler.py", "test_embedding.py", "test_prefix_caching.py",
        "worker/test_hpu_model_runner.py",
    ),
    "several models": ("test_multi_model_engine_unit.py",),
}  # fmt: skip
_VLLM_LAZY = tuple(
    f"ops/test_hpu_{name}.py" for name in ("awq", "compressed_tensors", "fp8", "fused_moe", "gptq", "layernorm")
)
_VLLM = {"OPENHPU_MEMORY_GB": "2", "VLLM_NO_USAGE_STATS": "1"}
_VLLM_MEMORY = {"rotary embeddings": {"OPENHPU_MEMORY_GB": "12"}}
# Of scale, style and width: the largest tables of cosines.
_VLLM_TABLES = {
    f"test_deepseek_scaling_rotary_embedding[{scale}-{style}-500000.0-131072-{width}-": "makes tables of 524,288 rows "
    "of 1,024 elements, or larger ones: at times more than 12 GB of a module, the largest more than 16"
    for scale, width in (("4.0", 1024), ("8.0", 512), ("8.0", 1024))
    for style in (False, True)
}
_INC_FILES = (
    "block_wise", "calibration_counter", "fakequant", "fp8_config", "qdq", "quarot", "runtime_scale_patching",
    "save_load", "scalar", "scale_method_config",
)  # fmt: skip
_INC = LAZY | _NODES | {"INC_PT_ONLY": "1", "OPENHPU_MEMORY_GB": "4"}
_VLLM_LATER = "{}: not looked at yet; names a model of the hub"
# What is served, by parts: title, file, pytest's expression.
_VLLM_SERVING = (
    ("tokens of models", "test_serving.py", "test_tokens"), ("warm-up", "test_serving.py", "test_warm_up"),
    ("ranks", "test_serving.py", "test_ranks"), ("the server, without graphs", "test_server.py", "plain"),
    ("the server, with graphs", "test_server.py", "graphs"),
    ("the server's end, and what it refuses", "test_server.py", "end or large or ranks or report or parallel"),
    ("tokens of models with HPU graphs", "test_serving.py", "test_tokens and compile"),
    ("features", "test_features.py", ""), ("the plugin's unit tests as docs/ci.md runs them", "test_ci.py", ""),
)  # fmt: skip


def _vllm_files(files: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"tests/unit_tests/{file}" for file in files)


def _vllm_serving(mode: str, environment: dict[str, str], parts: tuple[int, ...]) -> tuple[Run, ...]:
    folder = ROOT / "ecosystem" / "vllm"
    chosen = [_VLLM_SERVING[part] for part in parts]
    # The plugin's folder has a package `tests`, too.
    own = {"test_ci.py": {"PYTHONSAFEPATH": "1"}}
    return tuple(
        Run(f"serving: {what}, {mode}", (str(folder / file),), environment | _VLLM | own.get(file, {}), only)
        for what, file, only in chosen
    )


LANES: dict[str, Lane] = {
    "torch-distributed": Lane(
        title="PyTorch's own tests of torch.distributed, with hccl in nccl's place and hpu in cuda's",
        runs=(
            Run("2 ranks", ("test_hccl.py",), EAGER | _DDP | {"WORLD_SIZE": "2"}),
            Run("4 ranks, what needs more than 2", ("test_hccl.py",), EAGER | _DDP | {"WORLD_SIZE": "4"}, "group"),
            Run("2 ranks, lazy, DDP", ("test_hccl.py",), LAZY | _DDP | {"WORLD_SIZE": "2"}, "ddp"),
        ),
        left_out={"test_ddp_uneven_inputs": "a large model's steps: not done after its 400 s on two cores"},
        expected={
            "test_batch_isend_irecv_nccl": "Gloo has no messages of a rank to itself",
            "test_nccl_high_priority_stream": "asks for NCCL's own options",
            "test_ddp_profiling_torch_profiler": "asks for a record of waits in the trace, which NCCL alone writes",
        },
    ),
    "readers": Lane(
        title="Programs that read traces",
        runs=(Run("eager and lazy", ("test_trace_readers.py",)),),
        packages=("HolisticTraceAnalysis", "torch-tb-profiler", "pandas<3", "tensorboard"),
    ),
    "deepspeed": Lane(
        title="DeepSpeed: stages of ZeRO x offload x precision x ranks, beside its CPU accelerator",
        runs=(
            *(
                Run(
                    f"cells of {ranks}, eager", ("test_matrix.py",), EAGER | _RANKS,
                    f"test_cell and not nvme and -{ranks[0]}]",
                )
                for ranks in ("1 rank", "2 ranks", "4 ranks")
            ),
            Run("cells with files (NVMe), eager", ("test_matrix.py",), EAGER | _RANKS, "test_cell and nvme"),
            Run("from cell to cell, eager", ("test_matrix.py",), EAGER | _RANKS, "test_round_trips"),
            Run("operators that DeepSpeed compiles, eager", ("test_compiled.py",), EAGER | _RANKS),
            Run("two ranks, lazy, in recipes", ("test_recipes.py",), LAZY | _COMPILED | _RANKS),
        ),
        packages=("deepspeed==0.19.8",),
    ),
    "deepspeed-tests": Lane(
        title="DeepSpeed's own tests: those that its workflow for a Gaudi lists",
        runs=(),
        packages=(
            "einops", "hjson", "msgpack", "ninja", "psutil", "py-cpuinfo", "pydantic", "tqdm", "tabulate", "pytest<8.4",
            "transformers==5.23.0", "accelerate==1.15.0", "tensorboard", "wandb", "comet_ml",
        ),
        alone=("mup==1.0.0",),
        checkout="deepspeedai/DeepSpeed@edaa7221267243c7be7fb49c5d5f5c4fb97b4641",
        inside="tests",
        listed="../.github/workflows/hpu-gaudi2.yml",
    ),
    "accelerate": Lane(
        title="accelerate's own tests",
        runs=(
            Run("all, eager", ("tests",), EAGER),
            Run(
                "core, lazy",
                tuple(f"tests/test_{name}.py" for name in ("accelerator", "optimizer", "grad_sync", "multidevice")),
                LAZY,
            ),
        ),
        packages=(
            "accelerate==1.15.0", "transformers==5.23.0", "datasets", "evaluate", "parameterized", "scikit-learn",
            "pytest-subtests", "torchdata", "pyarrow<24",
        ),
        source="accelerate",
        left_out={
            "FeatureExamplesTests": _NOT_SHIPPED, "ExampleDifferenceTests": _NOT_SHIPPED,
            "TpuConfigTester": _NOT_SHIPPED, "ToFSDP2Tester": _NOT_SHIPPED, "ModelEstimatorTester": _HUB,
            "TestLoadCheckpointAndDispatchWithBroadcast": _HUB,
        },
        expected={
            "test_configs": _NOT_SHIPPED,
            "huggingface.co": _HUB,
        },
    ),
    "transformers": Lane(
        title="transformers: tiny models of each kind, against the CPU",
        runs=(
            Run("eager", (".",), EAGER),
            Run("lazy", (".",), LAZY | _NODES),
            Run(
                "lazy, compiled", ("test_models.py",), LAZY | _COMPILED,
                "(GPT2 or Llama or ViT) and (forward or backward)",
            ),
        ),
        packages=("transformers==5.23.0", "accelerate==1.15.0", "scipy"),
        expected={
            "test_bfloat16_under_autocast[Bloom]": "masks with float32's lowest number; softmax is on Gaudi's list of "
            "operators in bfloat16, where that is minus infinity, and a row of nothing else has no softmax",
            "test_bfloat16_under_autocast[YolosForObjectDetection]": "gives costs to SciPy, which has no bfloat16; "
            "cdist is not on Gaudi's list of operators in float32",
        },
        torchvision=True,
    ),
    "timm": Lane(
        title="timm: architectures forward and backward, and what trains them, against the CPU",
        runs=_BOTH,
        packages=("timm==1.0.31",),
        expected={
            'backend="inductor" has no code for hpu tensors': "kron compiles its steps and names no backend, which is "
            "Inductor; with hpu_backend it runs (test_optimizer_that_compiles)",
        },
        torchvision=True,
    ),
    "peft": Lane(
        title="peft: adapters against the CPU",
        runs=_BOTH,
        packages=("peft==0.21.2", "transformers==5.23.0", "accelerate==1.15.0"),
    ),
    "diffusers": Lane(
        title="diffusers: models, schedulers, pipelines and trainings against the CPU",
        runs=_BOTH,
        packages=("diffusers==0.42.1", "transformers==5.23.0", "accelerate==1.15.0", "peft==0.21.2"),
        torchvision=True,
    ),
    "trl": Lane(
        title="trl: SFT, DPO, GRPO and others against the CPU",
        runs=_BOTH,
        packages=(
            "trl==1.16.0", "transformers==5.23.0", "accelerate==1.15.0", "peft==0.21.2", "datasets", "pyarrow<24",
        ),
    ),
    "sentence-transformers": Lane(
        title="sentence-transformers: encoding and training against the CPU",
        runs=_BOTH,
        packages=(
            "sentence-transformers==6.2.0", "transformers==5.23.0", "accelerate==1.15.0", "datasets", "pyarrow<24",
        ),
    ),
    "optimum-habana": Lane(
        title="optimum-habana 1.21.2, the last, with its transformers 4.55: configuration, trainer and models",
        runs=_BOTH,
        packages=("optimum-habana==1.21.2", "transformers==4.55.4", "accelerate==1.10.1"),
        torchvision=True,
        expected={
            "'BartAttention' object has no attribute '_shape'": "its own: names a method that transformers 4.55 no "
            "longer has, on the CPU as well",
            "gaudi_DetrLoss_get_targets_without_no_objects": "its own: names a method of another loss, on the CPU as "
            "well",
            "mat1 and mat2 shapes cannot be multiplied (24x64 and 32x32)": "its own: a mask of four "
            "dimensions for products of three, on the CPU as well",
            "Target 98 is out of bounds": "its own: takes hidden states for logits, of which there are fewer than "
            "words, on the CPU as well",
            "Default process group has not been initialized": "its own: in eager mode its trainer for "
            "sequences waits for other processes, of which there are none",
            "test_training_step[DeepseekV3]": "its own: asserts that it is not training",
            "test_generate[Phi3]": "it does not adapt this model; generation has a mask of another shape, on the CPU "
            "as well",
            "test_generate[RecurrentGemma]": "it does not adapt this model; generation has a mask of another shape, "
            "on the CPU as well",
        },
    ),
    "torchmetrics": Lane(
        title="torchmetrics: metrics against the CPU",
        runs=_BOTH,
        packages=("torchmetrics==1.9.0", "scipy", "scikit-learn"),
        torchvision=True,
    ),
    "datasets": Lane(
        title="datasets: tensors on hpu",
        runs=_BOTH,
        packages=("datasets==5.0.1", "pyarrow<24"),
    ),
    "bitsandbytes": Lane(
        title="bitsandbytes: quantised layers and optimizers against the CPU",
        runs=_BOTH,
        packages=("bitsandbytes==0.50.2", "transformers==5.23.0", "accelerate==1.15.0"),
        expected={"HPU backend only supports quant_type 'nf4'": "bitsandbytes has none of fp4 on hpu, and says so"},
    ),
    "lightning-habana": Lane(
        title="lightning_habana as it was released last, 1.6.0, with Lightning 2.4.0",
        runs=(Run("eager", ("test_released.py",), EAGER), Run("lazy", ("test_released.py",), LAZY)),
        packages=("lightning-habana==1.6.0", "lightning==2.4.0"),
        torchvision=True,
    ),
    "lightning-2.5": Lane(
        title="Lightning 2.5.5, the last that knows hpu by itself: this project's tests of lightning_habana",
        runs=_BOTH,
        folder="tests/lightning",
        beside=("deepspeed", "transformers"),
    ),
    "lightning-2.6": Lane(
        title="Lightning 2.6.6: this project's tests of lightning_habana",
        runs=_BOTH,
        folder="tests/lightning",
        beside=("lightning-next", "deepspeed-0.16", "deepspeed", "transformers"),
    ),
    "vllm": Lane(
        title="vLLM 0.28.0 with its plugin vllm-gaudi of August 2026: the plugin's unit tests, and tiny models served",
        runs=(
            *_vllm_serving("eager", EAGER, (0, 1, 2, 3, 4, 5, 7, 8)),
            *_vllm_serving("lazy, node by node", LAZY | _NODES, (0, 4)),
            *_vllm_serving("lazy, in recipes", LAZY, (6, 7)),
            *(
                Run(f"unit tests: {what}, eager", _vllm_files(files), EAGER | _VLLM | _VLLM_MEMORY.get(what, {}))
                for what, files in _VLLM_FILES.items()
            ),
            Run("unit tests: quantised layers and norms, lazy", _vllm_files(_VLLM_LAZY), LAZY | _NODES | _VLLM),
        ),
        packages=(
            "transformers==5.12.1", "huggingface-hub<2", "compressed-tensors==0.17.0", "xgrammar<1,>=0.2.1",
            "apache-tvm-ffi==0.1.11", "lm-format-enforcer==0.11.3", "llguidance<1.8,>=1.7", "outlines_core==0.2.14",
            "lark==1.2.2", "depyf==0.20.0", "fastapi<0.137,>=0.133", "prometheus-fastapi-instrumentator>=8",
            "mistral_common>=1.11.6", "opencv-python-headless", "fastsafetensors", "loguru", "uvicorn", "uvloop",
            "numba==0.66.0", "openai", "openai-harmony", "anthropic", "mcp", "pyzmq", "msgspec", "tblib==3.2.2",
            "kaldi-native-fbank", "pandas", "aiohttp", "blake3", "cachetools", "cbor2", "cloudpickle", "einops",
            "email-validator", "ijson", "jsonschema", "model-hosting-container-standards<1", "opentelemetry-api",
            "opentelemetry-exporter-otlp", "opentelemetry-sdk", "opentelemetry-semantic-conventions-ai",
            "partial-json-parser", "pillow", "prometheus_client", "protobuf>=6.33.5", "psutil", "py-cpuinfo",
            "pybase64", "pydantic-extra-types", "python-json-logger", "python-multipart", "regex", "requests",
            "prettytable", "sentencepiece", "setproctitle", "tiktoken", "watchfiles",
        ),
        times="ecosystem.vllm.times",
        alone=("vllm==0.28.0", "neural-compressor-pt==3.10"),
        checkout="vllm-project/vllm-gaudi@091bbadda10bee4fd3f6d0efc1844d2610dd2707",
        torchvision=True,
        left_out={
            "lora/test_llama_tp.py": _VLLM_LATER.format("LoRA"),
            "lora/test_llm_with_multi_loras.py": _VLLM_LATER.format("LoRA"),
            "kv_offload/test_cpu_offloading.py": _VLLM_LATER.format("offloading of the cache"),
            "kv_offload/test_connector_backend_fallback.py": _VLLM_LATER.format("offloading of the cache"),
            **_VLLM_TABLES,
        },
        expected={
            "1 validation error for ModelConfig": _HUB,  # facebook/opt-125m
            "LocalEntryNotFoundError": _HUB,
            "No module named 'vllm.entrypoints.launchers'": "its own: imports what vllm 0.28.0 does not have",
            "[fp8 made by vLLM/": "vLLM's: quantization/online/fp8.py calls a kernel of its CUDA library",
            "[n-gram drafts of 3 tokens/": "the plugin's: hpu_model_runner.py, line 3136, gives padding position 0 "
            "where a request has fewer drafts than another, and overwrites the key of its first token",
            "[drafts of a model/": "the plugin's: hpu_model_runner.py, line 1458, refuses this method",
        },
    ),
    "neural-compressor": Lane(
        title="Neural Compressor 3.10: the fp8 tests of its repository, of August 2026",
        runs=(
            Run("layers and functions, lazy", ("unit_tests/test_layers", "unit_tests/test_functions"), _INC),
            Run("models and formats, lazy", tuple(f"unit_tests/test_{name}.py" for name in _INC_FILES), _INC),
            Run("interface, lazy", ("test_register_apis.py",), _INC),
        ),
        packages=("transformers==5.23.0", "accelerate==1.15.0", "prettytable", "py-cpuinfo", "pydantic"),
        alone=("neural-compressor-pt==3.10",),
        checkout="intel/neural-compressor@9b47d09b8d135cdc73ea206e225892825ad700ca",
        apart=True,
        inside="test/torch/algorithms/fp8_quant",
        torchvision=True,
        expected={
            "::test_linear_accuracy[": "its bound is 17.5 % of a sum that cancels: 0.0646, which exact arithmetic with "
            "the layer's random bfloat16 weights in fp8 makes 0.0796",
            "input scales in dynamic quantization should differ": "two random tensors have the same power of two as "
            "scale: the device's random numbers are not a Gaudi's",
            "Quant comparison with OriginModule failed": "multiplies random numbers without a seed, and 0.5 is its "
            "bound for a sum of ten products in fp8: most of its runs pass",
            "couldn't connect to": _HUB,
            "LocalEntryNotFoundError": _HUB,
        },
    ),
}  # fmt: skip
