"""The modules of this machine, with the processes on them."""

from dataclasses import dataclass

from openhpu import settings
from openhpu.observe.smi import state_files
from openhpu.observe.smi.facts import PRODUCTS, Product

_MIB = 1 << 20


@dataclass(frozen=True)
class Module:
    """A device. Memory in MiB."""

    index: int
    number: int
    product: Product
    total: int
    used: int
    percent_busy: int
    processes: tuple[state_files.State, ...]

    @property
    def bus_id(self) -> str:
        """A PCI address in form; the device is on no bus."""
        return f"0000:{9 + self.number:02x}:00.0"

    @property
    def free(self) -> int:
        """Of the memory."""
        return self.total - self.used

    @property
    def serial(self) -> str:
        """A serial number in form."""
        return f"OPENHPU{self.number:04d}"

    @property
    def uuid(self) -> str:
        """An identifier in form."""
        return f"00P0-{self.product.name.replace('-', '')}SW-00-OPENHPU-{self.number:02d}"


def modules() -> list[Module]:
    """Those that processes of this machine may use, and those on which one runs."""
    memory = settings.device_setup().memory_bytes
    shown: dict[int, list[state_files.State]] = {}
    for found in state_files.read_all(state_files.folder()):
        shown.setdefault(found.module, []).append(found)
    product = PRODUCTS[settings.get("OPENHPU_GENERATION")]
    rows = []
    for index, number in enumerate(sorted({*settings.machine_modules(), *shown})):
        processes = shown.get(number, [])
        capacity = max((process.capacity for process in processes), default=memory)
        rows.append(
            Module(
                index,
                number,
                product,
                capacity // _MIB,
                -(-sum(process.used for process in processes) // _MIB),
                min(100, sum(process.percent_busy for process in processes)),
                tuple(processes),
            )
        )
    return rows
