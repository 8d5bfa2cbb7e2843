"""Data of hl-smi that are not measured: names, versions, and constants in the place of sensors."""

from typing import NamedTuple

SOFTWARE_VERSION = "1.24.1.482"  # of Gaudi's software that this project follows, as habana-torch-plugin has it
DRIVER_VERSION = SOFTWARE_VERSION.rpartition(".")[0]
FIRMWARE_VERSION = "61.0.0"
SMI_VERSION = f"hl-{DRIVER_VERSION}-fw-{FIRMWARE_VERSION}"


class Product(NamedTuple):
    """A generation's card. `idle_watts`, `max_watts` and `celsius` are constants: a software device has no sensors."""

    name: str
    idle_watts: int
    max_watts: int
    celsius: int = 26


PRODUCTS = {
    "gaudi": Product("HL-205", 60, 350),
    "gaudi2": Product("HL-225", 87, 600),
    "gaudi3": Product("HL-325L", 226, 850),
}
