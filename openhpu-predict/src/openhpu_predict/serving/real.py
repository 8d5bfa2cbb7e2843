"""The border of an engine with real weights. The times are given, so that its batches are those of a simulation."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from torch.utils._pytree import tree_flatten

from openhpu_predict.devices import Device
from openhpu_predict.serving import hooks
from openhpu_predict.serving.border import Border, shape_key
from openhpu_predict.serving.prices import EAGER, Key, Price, Prices
from openhpu_predict.serving.settings import ENVIRONMENT, Settings
from openhpu_predict.serving.shortcuts import NoShortcuts

_WIDE = ("logits", "sampler")  # calls whose operands are as wide as the model or its vocabulary


def given(known: Mapping[Key, Price]) -> dict[str, list[float]]:
    """The times of a simulation's calls, device's and host's, ready for JSON."""
    return {_name(key): [price.seconds, price.host] for key, price in known.items()}


def _name(key: Key) -> str:
    """A call, also of a model of another width."""
    if key[0] not in _WIDE:
        return repr(key)
    return repr(tuple(one[0][:-1] if isinstance(one, tuple) else one for one in key))


def _untraced(function: Callable[..., Any]) -> Callable[..., Any]:
    """Dynamo skips this function alone, and traces what it calls."""
    import torch._dynamo

    return torch._dynamo.disable(function, recursive=False)  # type: ignore[no-any-return]


class Real(Border):
    """A border where weights, cache, model and sampler are real. `times`: of calls, from `given`."""

    def __init__(self, device: Device, settings: Settings, times: Mapping[str, list[float]]) -> None:
        super().__init__(Prices(device, int(device.hbm_bytes), EAGER), settings)
        self.times, self.ran = times, 0
        self.shortcuts = NoShortcuts()
        # Dynamo must not trace what stands at the border: its counters would become guards.
        self.call = _untraced(self.call)  # type: ignore[method-assign]
        self.sample = _untraced(self.sample)  # type: ignore[method-assign]

    def begin(self) -> None:
        """As `engine.begin`, for a real engine."""
        os.environ.update(ENVIRONMENT)
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        hooks.install(self)

    def wrap(self, original: Any) -> Any:
        """The model that the plugin calls; Dynamo traces it, and not its border."""
        make = super().wrap(original)

        def wrap(*args: Any, **kwargs: Any) -> Any:
            adapter = make(*args, **kwargs)
            adapter.forward = _untraced(adapter.forward)
            adapter.compute_logits = _untraced(adapter.compute_logits)
            adapter.embed_input_ids = _untraced(adapter.embed_input_ids)
            return adapter

        return wrap

    def mem_get_info(self, original: Any) -> Any:
        return original

    def initialize_kv_cache(self, original: Any) -> Any:
        return original

    def defragmenter(self, original: Any) -> Any:
        return original

    def mark_step(self, original: Any) -> Any:
        return original

    def compile(self, original: Any) -> Any:
        return original

    def get_model(self, original: Any) -> Any:
        """Weights are real, and random."""

        def get_model(vllm_config: Any, **arguments: Any) -> Any:
            vllm_config.load_config.load_format = "dummy"
            return original(vllm_config=vllm_config, **arguments)

        return get_model

    def sample(self, run: Callable[..., Any], logits: Any) -> Any:
        """The plugin's sampler. vLLM ignores the end of a text, so that its tokens do not matter."""
        return self.call("sampler", run, {"logits": logits})

    def call(self, what: str, function: Callable[..., Any], arguments: dict[str, Any], options: Any = ()) -> Any:
        """The call itself, which takes on the clock what the simulation says. A warm-up takes no time."""
        chosen = {name: arguments.pop(name) for name in options if name in arguments}
        leaves, _ = tree_flatten(arguments)
        key = shape_key(what, tuple(chosen.get(one) for one in options), leaves)
        seconds, host = self.times.get(_name(key), (0.0, 0.0))
        found = function(**arguments)
        self.ran += 1
        if not self._warming:
            self.clock.launch(seconds)
            self.clock.work(host)
        return found
