"""The parameters of a simulated server, and the options of vLLM that a simulation cannot honour."""

import dataclasses
import os
import tomllib
from typing import Any, NamedTuple

from openhpu_predict.devices import DATA
from openhpu_predict.errors import PredictError

# Where the plugin (0.28.0 of commit 091bbad) stops.
_NO_STAGE = (
    "the plugin hands no tensors to a next stage: line 3680 of vllm_gaudi/v1/worker/hpu_model_runner.py calls the "
    "model without intermediate_tensors, and line 3697 expects hidden states from it, which only the last stage returns"
)

# Set before vllm is imported: the engine runs in this process, and names of requests are as given.
ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_DISABLE_REQUEST_ID_RANDOMIZATION": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
}


class Errors(NamedTuple):
    """The simulation's median errors on published rows, as shares of the time."""

    first: float
    later: float


@dataclasses.dataclass(frozen=True)
class Settings:
    """Seconds and bytes; data/serving.toml has the values, each with its source.

    `host_step`, `host_request`: what the host needs for a step, and for each of its requests. `http`: a server's share
    of each request's times to the first token and end to end. `runtime_bytes`: of the card's memory, that no program
    gets. `compile_least`, `compile_most`: to compile an operator of a graph. `errors`: the simulation's own.
    """

    host_step: float
    host_request: float
    http: float
    runtime_bytes: float
    compile_least: float
    compile_most: float
    errors: Errors
    sources: dict[str, str] = dataclasses.field(default_factory=dict, compare=False)

    @staticmethod
    def stated(**changed: float) -> "Settings":
        """The values of the file, but for those that are given."""
        figures = tomllib.loads((DATA / "serving.toml").read_text())["figures"]
        errors = Errors(**tomllib.loads((DATA / "serving-errors.toml").read_text())["median"])
        values = {name: figure["value"] for name, figure in figures.items()} | changed
        sources = {name: figure["source"] for name, figure in figures.items()} | dict.fromkeys(changed, "given")
        return Settings(**values, errors=errors, sources=sources)

    def check(self, config: Any) -> None:
        """Raises PredictError for what vLLM was asked, and the simulation cannot honour. `config` is a VllmConfig."""
        parallel, model = config.parallel_config, config.model_config
        backend = parallel.distributed_executor_backend
        own = backend in ("uni", "external_launcher") or parallel.world_size > parallel.tensor_parallel_size
        refused = (
            (
                "--pipeline-parallel-size",
                parallel.pipeline_parallel_size,
                1,
                _NO_STAGE,
            ),
            ("--data-parallel-size", parallel.data_parallel_size, 1, "one engine is simulated"),
            ("--distributed-executor-backend", None if own else str(backend), None, "one process has all cards"),
            ("--speculative-config", config.speculative_config, None, "how many drafts are right is not known"),
            ("--enable-lora", config.lora_config, None, "adapters have no price yet"),
            ("--kv-transfer-config", config.kv_transfer_config, None, "one engine is simulated"),
            ("--runner", model.runner_type, "generate", "only generation has tokens in time"),
            ("QUANT_CONFIG", os.environ.get("QUANT_CONFIG"), None, "Neural Compressor needs the weights' values"),
            ("--quantization", model.quantization if model.quantization == "inc" else None, None, "as QUANT_CONFIG"),
            ("VLLM_USE_FAKE_HPU", os.environ.get("VLLM_USE_FAKE_HPU", "0"), "0", "the card is simulated"),
        )
        for name, given, only, why in refused:
            if given != only:
                expected = "" if only is None else f"; expected {only}"
                shown = given if isinstance(given, (int, str)) else "given"
                raise PredictError(f"{name} is {shown}, which serve-sim cannot honour ({why}){expected}")
