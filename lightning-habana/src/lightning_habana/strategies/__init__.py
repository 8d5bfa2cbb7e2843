"""The common part of Trainer's and Fabric's strategies."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

import habana_frameworks.torch.core as htcore
import habana_frameworks.torch.hpu as torch_hpu
from habana_frameworks.torch.distributed import hccl
from lightning_habana import roots
from lightning_habana.accelerators import HPUDevices
from lightning_habana.utils import hpu_distributed

_WATCH_S = 0.5  # between two looks at the parent process
_PARENT = "_LIGHTNING_HABANA_PARENT"  # the process that started the others
_LightningEnvironment: Any = roots.fabric("plugins.environments").LightningEnvironment


class HPUSteps(roots.Mixin):
    """Ends the steps of lazy mode: after backward and the optimizer, and before evaluation."""

    strategy_name: str
    other_names: dict[str, dict[str, Any]] = {}  # noqa: RUF012  # with the arguments that they stand for

    @classmethod
    def register_strategies(cls, strategy_registry: Any) -> None:
        """Register the class under its names, unless there are such."""
        for name, arguments in {cls.strategy_name: {}, **cls.other_names}.items():
            if name not in strategy_registry:
                strategy_registry.register(name, cls, description=cls.__name__, **arguments)

    def backward(self, *args: Any, **kwargs: Any) -> Any:
        """The backward pass, at whose end the recorded graph goes to the device."""
        result = super().backward(*args, **kwargs)
        htcore.mark_step()
        return result

    def optimizer_step(self, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's step, likewise."""
        result = super().optimizer_step(*args, **kwargs)
        htcore.mark_step()
        return result


class HPUProcesses(HPUSteps):
    """One process for each device, which owns a module and means it by every index; `hccl` communicates."""

    _process_group_backend: str | None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self._process_group_backend is None:  # Lightning chooses one in setup_environment
            self._process_group_backend = "hccl"

    @property
    def parallel_devices(self) -> list[torch.device] | None:
        """A device for each process of this node. May be set to their number."""
        return self._parallel_devices  # type: ignore[no-any-return]

    @parallel_devices.setter
    def parallel_devices(self, devices: list[torch.device] | int | None) -> None:
        if isinstance(devices, int):
            devices = HPUDevices.get_parallel_devices(HPUDevices.parse_devices(devices))
        for device in devices or ():
            if torch.device(device).type != "hpu":
                raise roots.MisconfigurationException(
                    f"{type(self).__name__}(parallel_devices=...): expected hpu devices, got {device}"
                )
        self._parallel_devices = devices

    @property
    def root_device(self) -> torch.device:
        """This process's device."""
        return torch.device("hpu", torch_hpu.current_device())

    def setup_environment(self) -> None:
        """Take the process's module and join the process group."""
        self._take_module()
        with self._ends_with_its_parent():
            super().setup_environment()

    def reduce(self, tensor: Any, group: Any = None, reduce_op: Any = "mean") -> Any:
        """Every process's tensor, reduced on the device; see `utils.hpu_distributed.reduce`. Others come back."""
        if not isinstance(tensor, torch.Tensor):
            return tensor
        return hpu_distributed.reduce(tensor.to(self.root_device), group, reduce_op)

    all_reduce = reduce  # Fabric's name of it

    def _configure_launcher(self) -> None:
        super()._configure_launcher()
        if not self.cluster_environment.creates_processes_externally:
            os.environ[_PARENT] = str(os.getpid())  # which the launcher hands on

    @contextmanager
    def _ends_with_its_parent(self) -> Iterator[None]:
        """A process that Lightning started ends while it waits for the others, if the process that started it does."""
        parent = int(os.environ.get(_PARENT, "0"))
        if parent in (0, os.getpid()) or not isinstance(self.cluster_environment, _LightningEnvironment):
            yield
            return
        joined = threading.Event()

        def watch() -> None:
            while not joined.wait(_WATCH_S):
                if os.getppid() != parent:
                    sys.stderr.write(
                        f"{type(self).__name__}: rank {self.global_rank} ends, since the process that started it has "
                        "ended before all ranks had joined the process group. See what rank 0 printed.\n"
                    )
                    sys.stderr.flush()
                    os._exit(1)

        threading.Thread(target=watch, name="parent watch", daemon=True).start()
        try:
            yield
        finally:
            joined.set()

    def _take_module(self) -> None:
        accelerator = getattr(self, "accelerator", None)
        if not isinstance(accelerator, HPUDevices):
            raise roots.MisconfigurationException(
                f"`{type(self).__name__}` requires HPUAccelerator. Found {accelerator}. Pass accelerator='hpu'."
            )
        if self.world_size > 1:
            os.environ["LOCAL_WORLD_SIZE"] = str(self.num_processes)  # share the machine's cores and memory
            hccl.initialize_distributed_hpu(
                world_size=self.world_size, rank=self.global_rank, local_rank=self.local_rank
            )
