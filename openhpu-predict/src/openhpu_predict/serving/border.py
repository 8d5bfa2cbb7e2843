"""The border between the plugin and the simulated card: the plugin's call of the model, and of its sampler.

Outside of it all tensors are real. Inside, weights, cache and activations are fake: they have shapes and types. Each
call with new shapes is recorded once and priced; afterwards its price moves the clock.
"""

import contextlib
import dataclasses
import functools
import gc
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import keystr, tree_flatten, tree_flatten_with_path, tree_map

import openhpu_predict
from openhpu_predict.errors import PredictError
from openhpu_predict.processes import real
from openhpu_predict.recording import Recorder, Recording
from openhpu_predict.serving import repeats
from openhpu_predict.serving.cards import Cards
from openhpu_predict.serving.clock import Clock
from openhpu_predict.serving.log import Bucket, Call, Log, Miss, Served, Step, Warmed
from openhpu_predict.serving.prices import EAGER, Key, Price, Prices
from openhpu_predict.serving.results import Result, plain
from openhpu_predict.serving.settings import Settings
from openhpu_predict.serving.shortcuts import Shortcuts

TOKEN = 5  # what the sampler returns: no end of a text


class Border:
    """What stands at the border. A process simulates one engine. `prices` know the card, `settings` the host."""

    def __init__(self, prices: Prices, settings: Settings) -> None:
        self.clock, self.log = Clock(), Log()
        self.prices, self.settings = prices, settings
        self.cards = Cards(prices.device)
        self.shortcuts = Shortcuts()
        self.engine: Any = None  # vLLM's EngineCore
        self.arrivals: dict[str, int] = {}  # of requests that are about to be added
        self.weights = self.cache = 0  # bytes
        self.spent: dict[tuple[str, Key], tuple[Price, int]] = {}  # calls by phase, after the warm-up
        self.buckets = 0  # that the plugin has for its warm-up
        self.all_warm = False  # nothing is compiled: who compares candidates does not want the time
        self._results: dict[int, Result] = {}  # by the fake tensor
        self._recorder: Recorder | None = None
        self._repeats: repeats.Repeats | None = None
        self._warming = False
        self._bucket = Bucket("", 0, 0, 0)
        self._ids: list[str] = []  # the requests of the call
        self._prefills: list[tuple[list[str], int]] = []  # of the next calls: requests, and their tokens
        self._step = Step(0, [])
        self._preempted: list[str] = []  # since the last step's tokens
        self._pending = 0  # the step whose tokens come next
        self._done: dict[int, int] = {}  # when the tokens of an output are there

    @property
    def warming(self) -> bool:
        """Whether the plugin's warm-up runs."""
        return self._warming

    @property
    def bucket(self) -> Bucket:
        """Of the call that runs, or ran last."""
        return self._bucket

    @property
    def requests(self) -> list[str]:
        """Of this call."""
        return list(self._ids)

    # The functions that the table of hooks names. Each takes the original, and returns what takes its place.

    def mem_get_info(self, _original: Any) -> Any:
        """(free, all) bytes of the simulated card."""

        def mem_get_info(_device: Any = None) -> tuple[int, int]:
            whole = self.prices.memory
            return max(whole - self.weights - self.cache, 0), whole

        return mem_get_info

    def get_model(self, original: Any) -> Any:
        """Weights are made under fake tensors; nothing is read but config.json."""

        def get_model(vllm_config: Any, **arguments: Any) -> Any:
            vllm_config.load_config.load_format = "dummy"
            with openhpu_predict.fake(), _Ones():
                model = original(vllm_config=vllm_config, **arguments)
            _check_memory(model)
            self.weights = _bytes([*model.parameters(), *model.buffers()])
            model.to = lambda *_args, **_kwargs: model  # PyTorch cannot move fake tensors, and they are on hpu
            repeats.of(model, lambda: self._repeats)
            gc.freeze()  # vLLM and the plugin collect garbage often while they begin
            return model

        return get_model

    def compile(self, _original: Any) -> Any:
        """In the place of torch.compile: a graph begins before the module or function, and ends after it."""

        def compile(_runner: Any, what: Any) -> Any:
            if isinstance(what, torch.nn.Module):
                what.register_forward_pre_hook(lambda *_: self._cut())
                what.register_forward_hook(lambda *_: self._cut())
                return what

            @functools.wraps(what)
            def call(*args: Any, **kwargs: Any) -> Any:
                self._cut()
                found = what(*args, **kwargs)
                self._cut()
                return found

            return call

        return compile

    def mark_step(self, original: Any) -> Any:
        """In lazy mode the plugin ends a graph by it."""

        def mark_step(*args: Any, **kwargs: Any) -> Any:
            self._cut()
            return None if self._recorder is not None else original(*args, **kwargs)

        return mark_step

    def wrap(self, original: Any) -> Any:
        """The model that the plugin calls."""

        def wrap(*args: Any, **kwargs: Any) -> Any:
            adapter = self.adapter(original)(*args, **kwargs)
            forward, logits, embed = adapter.forward, adapter.compute_logits, adapter.embed_input_ids

            def priced_embed(input_ids: Any, **arguments: Any) -> Any:
                # Later, for the plugin names the bucket when it calls the model.
                return functools.partial(self.call, "embeddings", embed, {"input_ids": input_ids, **arguments})

            def priced_forward(**arguments: Any) -> Any:
                arguments.pop("kv_caches", None)
                if callable(later := arguments.get("inputs_embeds")):
                    arguments["inputs_embeds"] = later()
                return self.remembered(self.call("forward", forward, arguments, ("bypass_hpu_graphs",)))

            def priced_logits(states: Any) -> Any:
                return self.remembered(self.call("logits", logits, {"hidden_states": plain(states)}))

            adapter.forward, adapter.compute_logits = priced_forward, priced_logits
            adapter.embed_input_ids, adapter.embed_multimodal = priced_embed, _refuse
            return adapter

        return wrap

    def remembered(self, found: Any) -> Any:
        """A fake result of a call, with the parts that the plugin takes of it."""
        if not isinstance(found, FakeTensor):
            return found
        known = self._results.get(id(found))
        if known is None:
            known = self._results[id(found)] = Result(found, _under_fake)
        return known

    def adapter(self, original: Any) -> Any:
        """Makes the plugin's adapter of the model, without HPU graphs: a recorded call captures nothing."""
        from vllm_gaudi.v1.worker.hpu_model_runner import HpuModelAdapter

        return HpuModelAdapter

    def sampler(self, original: Any) -> Any:
        """A sampler that returns one token for each row."""
        border = self

        class Sampler(original):  # type: ignore[misc]
            def forward(self, logits: torch.Tensor, sampling_metadata: Any, **more: Any) -> Any:
                run = functools.partial(super().forward, sampling_metadata=sampling_metadata, **more)
                return border.sample(run, logits)

        return Sampler

    def sample(self, run: Callable[..., Any], logits: torch.Tensor) -> Any:
        """The sampler's output for these logits, rows by words."""
        from vllm.v1.outputs import SamplerOutput

        self.call("sampler", lambda logits: run(logits).sampled_token_ids, {"logits": plain(logits)})
        tokens = torch.full((logits.shape[0], 1), TOKEN, dtype=torch.int32, device="hpu")
        return SamplerOutput(sampled_token_ids=tokens, logprobs_tensors=None)

    def initialize_kv_cache(self, original: Any) -> Any:
        """The cache is made under fake tensors."""

        def initialize_kv_cache(runner: Any, config: Any) -> None:
            # Of a hybrid model it also makes the plugin's batch again, which is real.
            runner.may_reinitialize_input_batch = real(runner.may_reinitialize_input_batch)
            with openhpu_predict._FAKE:
                original(runner, config)
            self.cache = _bytes(tree_flatten(list(runner.kv_caches))[0])

        return initialize_kv_cache

    def warmup_model(self, original: Any) -> Any:
        """What the plugin runs here is warm-up: it is noted, and does not move the clock."""

        def warmup_model(runner: Any) -> None:
            self._warming = True
            gc.freeze()  # the plugin collects garbage for each bucket
            known = len(self.prices.known)
            try:
                original(runner)
            finally:
                if len(self.prices.known) > known:  # recordings leave much garbage
                    gc.unfreeze()
                    gc.collect()
                    gc.freeze()
                self._warming = False
                manager = runner.bucketing_manager
                self.buckets = len(manager.prompt_buckets) + len(manager.decode_buckets)
                self._done.clear()
                self._prefills.clear()

        return warmup_model

    def form_prefill(self, original: Any) -> Any:
        """The requests of a prefill."""

        def form_prefill(runner: Any, contents: Any) -> Any:
            if contents.req_ids:  # of a hybrid model the first batch has none, and is not run
                self._prefills.append((list(contents.req_ids), sum(contents.get_num_tokens())))
            return original(runner, contents)

        return form_prefill

    def execute(self, original: Any) -> Any:
        """The bucket of the calls, and their requests: first the prefills of a step, then its decodes as one."""

        def execute(runner: Any, token_ids: Any, position_ids: Any, metadata: Any, *args: Any, **kwargs: Any) -> Any:
            phase = "prompt" if metadata.is_prompt else "decode"
            sizes = token_ids.size(0), runner._seq_len(metadata), runner._num_blocks(metadata)
            self._bucket = Bucket(phase, *(int(size) for size in sizes))
            if metadata.is_prompt and self._prefills:
                self._ids, tokens = self._prefills.pop(0)
            else:
                self._ids = runner.input_batch.req_ids[: runner.input_batch.num_reqs]
                self._ids = self._ids[: len(self._ids) - self._count_prefilled()]
                tokens = len(self._ids)
            if not self._warming:
                bucket = self._bucket
                self._step.calls.append(Call(bucket, len(self._ids), tokens))
                self.log.used[bucket] += 1
                padding = self.log.padding.setdefault(bucket, [0, 0])
                padding[0] += tokens
                padding[1] += bucket.batch * bucket.length
            return original(runner, token_ids, position_ids, metadata, *args, **kwargs)

        return execute

    def _count_prefilled(self) -> int:
        return sum(call.requests for call in self._step.calls if call.bucket.phase == "prompt")

    def step(self, original: Any) -> Any:
        """The host prepares a step; then the device works through its calls."""

        def sample_tokens(runner: Any, grammar_output: Any) -> Any:
            scheduled = runner.scheduler_output
            self._prefills.clear()
            self._step = Step(self.clock.now, [])
            if scheduled is None or self._warming:
                return original(runner, grammar_output)
            self.log.steps.append(self._step)
            settings = self.settings
            self.clock.work(settings.host_step + settings.host_request * len(scheduled.num_scheduled_tokens))
            for one in scheduled.scheduled_new_reqs:
                request = self.log.requests[one.req_id]
                request.scheduled, request.cached = self._step.begin, one.num_computed_tokens
            found = original(runner, grammar_output)
            if runner.use_async_scheduling:
                self._done[id(found)] = self.clock.free
            else:
                self.clock.wait(self.clock.free)
            return found

        return sample_tokens

    def get_output(self, original: Any) -> Any:
        """The host waits for the tokens of a step."""

        def get_output(output: Any) -> Any:
            self.clock.wait(self._done.pop(id(output), 0))
            return original(output)

        return get_output

    def defragmenter(self, original: Any) -> Any:
        """The plugin's copies of blocks within the cache."""

        def init(defragmenter: Any, *args: Any, **kwargs: Any) -> None:
            from vllm_gaudi.extension.defragmentation import CacheSwapUtils

            original(defragmenter, *args, **kwargs)

            def swap(sources: Any, targets: Any, caches: Any, block: int) -> None:
                def run(sources: Any, targets: Any) -> Any:
                    CacheSwapUtils(block, "hpu")(sources, targets, caches, block)
                    return sources

                self.call("copies", run, {"sources": sources, "targets": targets})

            defragmenter.cache_utils = swap

        return init

    def core(self, original: Any) -> Any:
        """vLLM's EngineCore, for its scheduler."""

        def init(core: Any, vllm_config: Any, *args: Any, **kwargs: Any) -> None:
            self.settings.check(vllm_config)
            if vllm_config.model_config.enforce_eager:
                self.prices.how = EAGER
            original(core, vllm_config, *args, **kwargs)
            self.engine = core

        return init

    def add_request(self, original: Any) -> Any:
        """A request arrives."""

        def add_request(core: Any, request: Any, *args: Any) -> None:
            name = request.request_id
            arrival = self.arrivals.pop(name, self.clock.now)
            self.log.requests[name] = Served(name, arrival, request.num_prompt_tokens)
            original(core, request, *args)

        return add_request

    def preempt(self, original: Any) -> Any:
        """A request loses its blocks, and begins again later."""

        def preempt(scheduler: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
            self.log.requests[request.request_id].preemptions += 1
            self._preempted.append(request.request_id)
            return original(scheduler, request, *args, **kwargs)

        return preempt

    def update(self, original: Any) -> Any:
        """The tokens of a step are on the host."""

        def update(scheduler: Any, scheduled: Any, output: Any) -> Any:
            found = original(scheduler, scheduled, output)
            now = self.clock.now
            if scheduled.num_scheduled_tokens:
                step = self.log.steps[self._pending]
                self._pending += 1
                step.ready, step.usage = now, scheduler.kv_cache_manager.usage
                step.running, step.waiting = len(scheduler.running), len(scheduler.waiting)
                step.preempted, self._preempted = self._preempted, []
            for outputs in found.values():
                for one in outputs.outputs:
                    request = self.log.requests[one.request_id]
                    if one.new_token_ids:
                        request.first = now if request.first < 0 else request.first
                        request.last = now
                        request.tokens += len(one.new_token_ids)
            return found

        return update

    # The calls themselves.

    def _cut(self) -> None:
        if self._recorder is not None:
            self._recorder.cut("graph")

    def call(
        self, what: str, function: Callable[..., Any], arguments: dict[str, Any], options: tuple[str, ...] = ()
    ) -> Any:
        """The result of a call: fake, of the right shape. The clock's device works for its price.

        `options` are arguments that change how it is launched, and are not the function's.
        """
        chosen = tuple(arguments.pop(one, None) for one in options)
        leaves, _ = tree_flatten(arguments)
        key = shape_key(what, chosen, leaves)
        price = self.prices.known.get(key)
        if price is None:
            price = self.prices.add(key, what, *self.record(function, arguments))
            if self._warming:
                gc.freeze()
        if self._warming:
            self._warm(price)
            return price.result
        if not price.warm and not self.all_warm:
            self._missed(price, key, arguments)
        of = self._bucket.phase, key
        self.spent[of] = price, self.spent.get(of, (price, 0))[1] + 1
        self.clock.launch(price.seconds)
        self.clock.work(price.host)
        return price.result

    def known_prices(self) -> dict[Key, Price]:
        """The prices of this border for one in another process: shapes take the place of fake tensors."""
        return {
            key: dataclasses.replace(price, result=tree_map(_shape_of, price.result))
            for key, price in self.prices.known.items()
        }

    def take_prices(self, known: dict[Key, Price]) -> None:
        """Prices that another process found out, of the same model on as many of the same cards."""
        with openhpu_predict.fake():
            for key, price in known.items():
                made = tree_map(lambda one: one.made() if isinstance(one, _Shape) else one, price.result)
                self.prices.known[key] = dataclasses.replace(price, result=made)

    def _warm(self, price: Price) -> None:
        price.warm = True
        graphs, operators = self.prices.compiled(price)
        noted = self.log.warmed.setdefault(self._bucket, Warmed(self._bucket))
        noted.graphs += graphs
        noted.operators += operators
        noted.workspace = max(noted.workspace, price.workspace)

    def _missed(self, price: Price, key: Key, arguments: dict[str, Any]) -> None:
        """A device would compile now, and the host waits for that."""
        price.warm = True
        if self.prices.how == EAGER:
            return
        graphs, operators = self.prices.compiled(price)
        if not operators:
            return
        seconds = operators * self.prices.device.compile_per_operator
        differs = self._differs(price.what, key, arguments)
        miss = Miss(self._bucket, price.what, differs, self.clock.now, list(self._ids), graphs, operators, seconds)
        self.log.misses.append(miss)
        self.clock.wait(self.clock.free)
        self.clock.work(seconds)

    def _differs(self, what: str, key: Key, arguments: dict[str, Any]) -> str:
        """What is new in a call: its first size that differs from the nearest call before."""
        others = [one for one in self.prices.known if one[0] == what and one != key and len(one) == len(key)]
        if not others:
            return "the first of its kind"
        nearest = min(others, key=lambda one: sum(a != b for a, b in zip(one, key, strict=True)))
        names = [keystr(path) for path, _ in tree_flatten_with_path(arguments)[0]]
        names = [*[""] * (len(key) - len(names)), *names]
        changes: dict[str, list[str]] = {}  # tensors that changed alike
        for name, new, old in zip(names, key, nearest, strict=True):
            if new != old:
                plain = name.replace("[", "").replace("]", "").replace("'", "").rpartition(".")[2]
                changes.setdefault(f"{_size(new)}, not {_size(old)}", []).append(plain)
        found = [f"{', '.join(same[:2])}{', ...' * (len(same) > 2)}: {change}" for change, same in changes.items()]
        return "; ".join(found[:4]) + "; ..." * (len(found) > 4)

    def record(self, function: Callable[..., Any], arguments: dict[str, Any]) -> tuple[Recording, Any]:
        """Run a call under fake tensors. Its recording, and its result."""
        recorder = Recorder(None)
        with openhpu_predict.fake():
            fakes = tree_map(_like, arguments)
        with openhpu_predict.fake(), self._recording(recorder), recorder.watching() as recording:
            result = function(**fakes)
            recorder.end_step()
        return recording, result

    @contextlib.contextmanager
    def _recording(self, recorder: Recorder) -> Iterator[None]:
        self._recorder, self._repeats = recorder, repeats.Repeats(recorder)
        try:
            yield
        finally:
            self._recorder = self._repeats = None


def _refuse(**_inputs: Any) -> Any:
    raise PredictError(
        "a request or the warm-up has an image, a video or sound, which serve-sim cannot honour: the plugin's towers "
        "take sizes from values of tensors, as of image_grid_thw in vllm_gaudi/models/qwen2_5_vl.py, and fake tensors "
        "have no values; send texts alone, and leave --limit-mm-per-prompt out"
    )


def _check_memory(model: torch.nn.Module) -> None:
    """Raises PredictError if a part of the model is on PyTorch's device meta, where vLLM leaves it out."""
    for name, one in (*model.named_parameters(), *model.named_buffers()):
        if one.device.type == "meta":
            raise PredictError(
                f"{type(model).__name__} uses {name}, which is on PyTorch's device meta: --language-model-only leaves "
                "out the part that made it; serve without this option, and send texts alone"
            )


class _Ones(TorchDispatchMode):
    """Where loading reads a number of a weight, as of a scale, it is 1: fake tensors have none. All are equal then."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default and isinstance(args[0], FakeTensor):
            return 1.0 if args[0].is_floating_point() else args[0].dtype is torch.bool or 1
        if func is torch.ops.aten.allclose.default and isinstance(args[0], FakeTensor):
            return True
        return func(*args, **(kwargs or {}))


class _Shape:
    """What a price keeps of a fake tensor, to be sent to another process."""

    def __init__(self, size: torch.Size, dtype: torch.dtype) -> None:
        self._size, self._dtype = tuple(size), dtype

    def made(self) -> torch.Tensor:
        return torch.empty(self._size, dtype=self._dtype)


def _shape_of(one: Any) -> Any:
    return _Shape(one.shape, one.dtype) if isinstance(one, torch.Tensor) else one


def _under_fake(make: Callable[[], torch.Tensor]) -> torch.Tensor:
    with openhpu_predict.fake():
        return make()


def _like(one: Any) -> Any:
    return torch.empty(one.shape, dtype=one.dtype, device="hpu") if isinstance(one, torch.Tensor) else one


def shape_key(what: str, chosen: tuple[Any, ...], leaves: list[Any]) -> Key:
    """What a price belongs to: the call, how it is launched, and shapes and types of what it is given."""
    return (what, *chosen, *((tuple(one.shape), one.dtype) if isinstance(one, torch.Tensor) else one for one in leaves))


def _size(one: Any) -> str:
    return " x ".join(map(str, one[0])) or "one number" if isinstance(one, tuple) else str(one)


def _bytes(tensors: list[Any]) -> int:
    """Of tensors that may share their memory."""
    storages = {one.untyped_storage()._cdata: one.untyped_storage().nbytes() for one in tensors if one is not None}
    return sum(storages.values())
