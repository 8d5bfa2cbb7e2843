"""Gaudi's `config` of the backend: options by name, read and set for the whole process."""

from collections.abc import Iterator, MutableMapping
from types import ModuleType
from typing import Any

from openhpu import settings
from openhpu.capture.torch_compile.options import VARIABLES


class Configuration(MutableMapping[str, Any]):
    """The options of `hpu_backend`: what the environment says, until one is set. torch.compile's options go first.

    Raises KeyError for an option that does not exist, SettingError for a value that is not allowed.
    """

    def __getitem__(self, name: str) -> Any:
        return settings.get(self._variable(name))

    def __setitem__(self, name: str, value: Any) -> None:
        settings.override(self._variable(name), value)

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"hpu_backend: the option {name!r} can't be deleted; set it to another value")

    def __iter__(self) -> Iterator[str]:
        return iter(VARIABLES)

    def __len__(self) -> int:
        return len(VARIABLES)

    def __repr__(self) -> str:
        return f"Configuration({dict(self)})"

    @staticmethod
    def _variable(name: str) -> str:
        if name not in VARIABLES:
            raise KeyError(f"hpu_backend: there is no option {name!r}; the options are {', '.join(VARIABLES)}")
        return VARIABLES[name].name


configuration_flags = Configuration()


class ConfigurationModule(ModuleType):
    """A module whose attributes are the options: `config.use_eager_fallback = False`."""

    def __getattr__(self, name: str) -> Any:
        if name in VARIABLES:
            return configuration_flags[name]
        raise AttributeError(f"{self.__name__} has no option {name!r}; the options are {', '.join(VARIABLES)}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in VARIABLES:
            configuration_flags[name] = value
        elif name.startswith("__"):
            super().__setattr__(name, value)
        else:
            raise AttributeError(f"{self.__name__} has no option {name!r}; the options are {', '.join(VARIABLES)}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *VARIABLES})
