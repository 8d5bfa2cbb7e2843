"""Takes Gaudi's names out of scripts, or puts them in: see docs/port.md."""

from openhpu_port.errors import PortError
from openhpu_port.rewriting import Ported, Problem, port
from openhpu_port.settings import port_settings
from openhpu_port.table import Table, from_cuda, to_device

__all__ = ["PortError", "Ported", "Problem", "Table", "from_cuda", "port", "port_settings", "to_device"]
