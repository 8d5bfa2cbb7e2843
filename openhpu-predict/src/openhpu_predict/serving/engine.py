"""vLLM's engine in this process, with requests that arrive on the virtual clock."""

import gc
import os
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openhpu.device import mode
from openhpu_predict.devices import Device
from openhpu_predict.errors import PredictError
from openhpu_predict.serving import hooks
from openhpu_predict.serving.border import Border
from openhpu_predict.serving.clock import nanoseconds
from openhpu_predict.serving.prices import GRAPHS, REGIONS, Prices
from openhpu_predict.serving.settings import ENVIRONMENT, Settings
from openhpu_predict.serving.traffic import Request

_PROCESSORS = ("processor_config.json", "preprocessor_config.json")  # in the folder of a model that reads images


def begin(device: Device, settings: Settings) -> Border:
    """Put a simulated card at the plugin's border, for the rest of this process. Raises PredictError.

    Call it before the first import of vllm. A process simulates once.
    """
    os.environ.update(ENVIRONMENT)
    if device.name in ("gaudi2", "gaudi3"):  # the plugin asks which one it runs on
        os.environ["OPENHPU_GENERATION"] = device.name
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    border = Border(Prices(device, int(device.hbm_bytes - settings.runtime_bytes), REGIONS), settings)
    hooks.install(border)
    from vllm.plugins import load_general_plugins

    load_general_plugins()  # now, so that a fork has them
    gc.collect()
    gc.freeze()  # the plugin collects garbage often
    if mode.is_lazy():  # known since the import of the plugin; an option of vLLM may say eager
        border.prices.how = GRAPHS
    return border


def make(border: Border, model: str, options: Sequence[str]) -> Any:
    """An LLMEngine. `options` are vLLM's, as of `vllm serve`. Raises PredictError."""
    from vllm import EngineArgs, LLMEngine
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = EngineArgs.add_cli_args(FlexibleArgumentParser(prog="openhpu serve-sim", add_help=False))
    given = parser.parse_args(["--model", model, *options])
    # Who reads images makes a processor of it.
    given.skip_tokenizer_init = not any((Path(model) / name).is_file() for name in _PROCESSORS)
    given.disable_log_stats = True  # the border notes what the answers need
    try:
        arguments = EngineArgs.from_cli_args(given)
        return LLMEngine.from_engine_args(arguments)
    except PredictError:
        raise
    except (ValueError, OSError, NotImplementedError, RuntimeError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise PredictError(f"vLLM and its plugin do not run {model}: {' '.join(lines[:4])}") from error


def serve(border: Border, engine: Any, requests: Sequence[Request], block: int, concurrency: int = 0) -> None:
    """Run until all requests have their tokens. `block`: tokens of a block of a prompt.

    `concurrency`: a request is sent when fewer are on their way; its arrival is then. 0: at its own time.
    """
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    config, clock = engine.model_config, border.clock
    for number, one in enumerate(requests):
        if one.length + one.output > config.max_model_len:
            raise PredictError(
                f"request {number} has {one.length} + {one.output} tokens, and --max-model-len is "
                f"{config.max_model_len}; give a larger one, or leave the request out"
            )
        if one.tokens and max(one.tokens) >= config.get_vocab_size():
            raise PredictError(f"request {number} has the token {max(one.tokens)} of {config.get_vocab_size()}")
    waiting = deque(enumerate(requests))
    most = concurrency or len(requests)
    on_way = 0
    while waiting or on_way:
        while waiting and on_way < most:
            number, one = waiting[0]
            arrival = nanoseconds(one.arrival)
            if arrival > clock.now and on_way:
                break
            clock.sleep(arrival)
            waiting.popleft()
            on_way += 1
            name = f"{number}"
            border.arrivals[name] = clock.now if concurrency else arrival
            parameters = SamplingParams(
                max_tokens=one.output,
                ignore_eos=True,
                detokenize=False,
                temperature=0.0,
                output_kind=RequestOutputKind.FINAL_ONLY,
            )
            prompt = {"prompt_token_ids": one.prompt(number, block, config.get_vocab_size())}
            engine.add_request(name, prompt, parameters)
        on_way -= sum(output.finished for output in engine.step())
