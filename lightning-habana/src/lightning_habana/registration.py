"""Registers hpu with Lightning: names in its registries, and the choices that a script leaves to Lightning.

Lightning has no hooks for the choice of another package's accelerator. It lost those for hpu in 2.5.6. So the methods
that choose are wrapped, in the same way for every version. Other accelerators are not affected.
"""

import functools
import importlib
import inspect
from dataclasses import dataclass
from typing import Any

import torch

from lightning_habana import fabric, precisions, pytorch, roots
from lightning_habana.accelerators import HPUDevices
from lightning_habana.strategies import HPUSteps
from lightning_habana_autoload import CONNECTORS, before_choices
from openhpu.integration.late_imports import after_import

_registered = False


def register() -> None:
    """Tell Trainer and Fabric, once."""
    global _registered
    if _registered:
        return
    _registered = True
    trainer, plain = roots.pytorch, roots.fabric
    _add(pytorch, trainer("accelerators").AcceleratorRegistry, trainer("strategies").StrategyRegistry)
    _add(fabric, plain("accelerators").ACCELERATOR_REGISTRY, plain("strategies").STRATEGY_REGISTRY)
    for connector, choices in (
        (
            trainer("trainer.connectors.accelerator_connector")._AcceleratorConnector,
            _Choices("Trainer", pytorch, pytorch.HPUPrecisionPlugin, "_precision_flag", "_precision_plugin_flag"),
        ),
        (
            plain("connector")._Connector,
            _Choices("Fabric", fabric, fabric.HPUPrecision, "_precision_input", "_precision_instance"),
        ),
    ):
        choices.wrap(connector)
    _name_profiler(trainer("trainer.setup"))
    _complete_summary(trainer("utilities.model_summary").DeepSpeedSummary)
    after_import("torch._dynamo", functools.partial(_log_outside_of_graphs, trainer("core.module").LightningModule))
    others = f"{roots.trainer_package(roots.OTHER)}.", f"{roots.fabric_package(roots.OTHER)}."
    before_choices((module for module in CONNECTORS if module.startswith(others)), _refuse_other_root)


def _add(package: Any, accelerators: Any, strategies: Any) -> None:
    package.HPUAccelerator.register_accelerators(accelerators)
    for kind in ("SingleHPU", "HPUParallel", "HPUDDP", "HPUFSDP", "HPUDeepSpeed"):
        getattr(package, f"{kind}Strategy").register_strategies(strategies)


def _name_profiler(setup: Any) -> None:
    """Have `Trainer(profiler="hpu")` mean HPUProfiler, which learns of its trainer. Lightning's names are a local."""
    original = setup._init_profiler

    @functools.wraps(original)
    def _init_profiler(trainer: Any, profiler: Any) -> None:
        if isinstance(profiler, str) and profiler.lower() == "hpu":
            profiler = pytorch.HPUProfiler()
        if isinstance(profiler, pytorch.HPUProfiler):
            profiler.attach(trainer)
        original(trainer, profiler)

    setup._init_profiler = _init_profiler


def _complete_summary(summary: Any) -> None:
    """Lightning 2.5.5 prints a column of operations that it has not counted: ZeRO-3 fails with the default summary."""
    if not hasattr(summary, "flop_counts"):
        summary.flop_counts = property(lambda self: {name: {} for name in self.layer_names})


def _log_outside_of_graphs(module: Any) -> None:
    """`self.log` inspects the signatures of hooks, on which Dynamo fails: a compiled step has a graph on each side."""
    module.log = torch.compiler.disable(module.log)


def _on_hpu(connector: Any) -> bool:
    flag = connector._accelerator_flag
    return flag == "hpu" or isinstance(flag, HPUDevices)


@dataclass(frozen=True)
class _Choices:
    """The choices of a connector, for hpu. `flag` and `plugin`: where it keeps precision and plugin."""

    name: str
    package: Any  # lightning_habana.pytorch or .fabric
    precision: Any
    flag: str
    plugin: str

    def wrap(self, connector: Any) -> None:
        """Put each of ours before the connector's own."""
        automatic = connector._choose_auto_accelerator

        def _choose_auto_accelerator() -> str:
            return "hpu" if self.package.HPUAccelerator.is_available() else automatic()

        connector._choose_auto_accelerator = staticmethod(_choose_auto_accelerator)
        for name in ("_choose_strategy", "_check_and_init_precision", "_lazy_init_strategy"):
            setattr(connector, name, self._before(getattr(connector, name), getattr(self, name)))

    def _before(self, original: Any, ours: Any) -> Any:
        @functools.wraps(original)
        def method(connector: Any) -> Any:
            return ours(connector, original)

        return method

    def _choose_strategy(self, connector: Any, original: Any) -> Any:
        if not _on_hpu(connector):
            return original(connector)
        if len(connector._parallel_devices) > 1 or connector._num_nodes_flag > 1:
            return "hpu_ddp"
        return self.package.SingleHPUStrategy(device="hpu")

    def _check_and_init_precision(self, connector: Any, original: Any) -> Any:
        if not _on_hpu(connector):
            return original(connector)
        if getattr(connector, self.plugin) is not None:
            plugin = original(connector)
            precisions.check_plugin(plugin)
            return plugin
        precision = getattr(connector, self.flag)
        if precision not in precisions.BY_NAME:
            raise roots.MisconfigurationException(
                f"`{self.name}(accelerator='hpu', precision={precision!r})` is not supported. `precision` must be "
                f"one of: {precisions.BY_NAME}."
            )
        plugins = (roots.pytorch if self.package is pytorch else roots.fabric)("plugins.precision")
        if isinstance(connector.strategy, self.package.HPUFSDPStrategy):
            return self.package.HPUFSDPPrecision(precision)
        if isinstance(connector.strategy, fabric.HPUDeepSpeedStrategy):
            return plugins.DeepSpeedPrecision(precision)
        if isinstance(connector.strategy, pytorch.HPUDeepSpeedStrategy) and precision != "64-true":
            return pytorch.HPUDeepSpeedPrecisionPlugin(precision)
        if precision in ("bf16-true", "16-true"):
            return plugins.HalfPrecision(precision)
        if precision == "64-true":
            return plugins.DoublePrecision()
        return self.precision(precision)

    def _lazy_init_strategy(self, connector: Any, original: Any) -> Any:
        accelerator, strategy = connector.accelerator, connector.strategy
        if isinstance(accelerator, HPUDevices) != isinstance(strategy, HPUSteps):
            known = ", ".join(repr(name) for name in connector._registered_strategies if "hpu" in name)
            raise roots.MisconfigurationException(
                f"{self.name}: `HPUAccelerator` and the strategies of lightning_habana go together, found "
                f"{type(accelerator).__name__} and {type(strategy).__name__}. With accelerator='hpu' (or 'auto', where "
                f"there is an hpu) `strategy` must be 'auto', one of {known}, or an instance of such a class."
            )
        return original(connector)


def _refuse_other_root(constructor: Any, *args: Any, **kwargs: Any) -> None:
    """The other distribution can't use these classes: an error instead of a choice of the CPU."""
    given = inspect.signature(constructor).bind(*args, **kwargs)
    given.apply_defaults()
    accelerator, strategy = given.arguments["accelerator"], given.arguments["strategy"]
    wants = accelerator in ("auto", "hpu") or isinstance(accelerator, HPUDevices)
    if wants or isinstance(strategy, HPUSteps) or "hpu" in str(strategy):
        error = importlib.import_module(f"{roots.fabric_package(roots.OTHER)}.utilities.exceptions")
        raise error.MisconfigurationException(
            f"This process uses hpu with {roots.NAME}, which was imported first, and {roots.OTHER} is another "
            f"package with other classes. Import all from {roots.NAME}, or pass accelerator='cpu'."
        )
