"""A stand-in for openhpu._C that records what it is told, for tests of what needs no device."""

import types

import torch


def make(**replaced):
    core = types.ModuleType("openhpu._C")
    core.calls = []
    core.open = False
    core.index = 0
    core.listener = None
    core.count = 1
    core.fallbacks = {}
    generators = [torch.Generator() for _ in range(8)]

    def record(name, value=None):
        def call(*args):
            core.calls.append((name, *args))
            return value

        setattr(core, name, call)

    for name in ("set_fallback_policy", "set_native_ops", "set_num_threads", "set_mode",
                 "synchronize", "reset_peak_memory_stats", "reset_accumulated_memory_stats", "empty_cache",
                 "emit_event", "record_stream", "reset_counters"):  # fmt: skip
        record(name)

    record("register_autocast", [])

    def configure(modules, memory_bytes, protect_memory, lock_modules, spin_us, visible):
        core.calls.append(("configure", modules, memory_bytes, protect_memory, lock_modules, spin_us, visible))
        core.count = visible

    def exchange(index):
        before, core.index = core.index, index
        return before

    core.configure = configure
    core.registration_is_late = lambda: False
    core.device_count = lambda: core.count
    core.current_device = lambda: core.index
    core.set_device = lambda index: setattr(core, "index", index)
    core.exchange_device = exchange
    core.maybe_exchange_device = lambda index: exchange(index) if index >= 0 else core.index
    core.init = lambda: setattr(core, "open", True)
    core.is_initialized = lambda: core.open
    core.is_in_bad_fork = lambda: False
    core.busy_ns = lambda index: 0
    stats = dict.fromkeys(
        ["Limit", "InUse", "MaxInUse", "NumAllocs", "NumFrees", "ActiveAllocs", "MaxAllocSize", "TotalSystemAllocs",
         "TotalSystemFrees", "TotalActiveAllocs"], 0)  # fmt: skip
    stats.update(Limit=4096, InUse=1024, MaxInUse=2048)
    core.memory_stats = lambda index: dict(stats)
    core.default_generator = lambda index: generators[index]
    core.counters = lambda: {"ops_submitted": 3}
    core.fallback_ops = lambda: dict(core.fallbacks)
    core.set_event_listener = lambda listener: setattr(core, "listener", listener)
    core.data_ptr = lambda tensor: tensor.data_ptr()
    for name, value in replaced.items():
        setattr(core, name, value)
    return core


def install(**replaced):
    import sys

    core = make(**replaced)
    sys.modules["openhpu._C"] = core
    return core
