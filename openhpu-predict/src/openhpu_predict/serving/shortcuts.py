"""Work of vLLM and the plugin that a simulation leaves out, for nothing depends on its values."""

import dataclasses
from typing import Any


class Shortcuts:
    """Functions that the table of hooks names. Each takes the original, and returns what takes its place."""

    def without_values(self, _original: Any) -> Any:
        """What fills weights, or notes how to load them again: fake ones have no values."""
        return lambda *_args, **_kwargs: None

    def decode_inputs(self, original: Any) -> Any:
        """The inputs of a decode, made once for a bucket, since their shapes depend on nothing else."""
        known: dict[tuple[int, int], Any] = {}

        def create(runner: Any, count: int, tokens: Any, context: Any, blocks: Any, scheduled: Any = None) -> Any:
            # With these, shapes depend on more.
            other = runner.use_contiguous_pa or runner.interleaved_sliding_window or runner.model_has_chunked_attention
            if other or max(tokens[:count]) > 1:
                return original(runner, count, tokens, context, blocks, scheduled)
            used = int((context // runner.attn_block_size + 1).sum())  # also the next token has a place
            find = runner.bucketing_manager.find_decode_bucket
            batch = find(count, used)[0]
            bucket = batch, find(batch, used)[2]
            if bucket not in known:
                known[bucket] = original(runner, count, tokens, context, blocks, scheduled)
            return dataclasses.replace(known[bucket], num_decodes=count)

        return create

    def sampling(self, original: Any) -> Any:
        """What the sampler gets with logits of so many rows. The price of a call depends on nothing else of it."""
        known: dict[int | None, Any] = {}

        def prepare(runner: Any, changed: bool, names: Any = None, rows: int | None = None, wanted: Any = None) -> Any:
            if rows not in known:
                known[rows] = original(runner, changed, names, rows, wanted)
            return known[rows]

        return prepare


class NoShortcuts(Shortcuts):
    """For an engine whose weights and inputs are real."""

    def without_values(self, original: Any) -> Any:
        return original

    def decode_inputs(self, original: Any) -> Any:
        return original

    def sampling(self, original: Any) -> Any:
        return original
