"""The module `openhpu.interface.hpex` under the name that scripts import: this one replaces itself by it."""

import importlib
import pkgutil

from openhpu.interface import hpex
from openhpu.interface.names import stand_in

for part in pkgutil.iter_modules(hpex.__path__, f"{hpex.__name__}."):
    importlib.import_module(part.name)
stand_in(hpex, __name__)
