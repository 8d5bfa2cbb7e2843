"""The choices of `hl-prof-config` for whole-process traces (HABANA_PROFILE=1), and their file."""

import json
import os
import re
from pathlib import Path
from typing import NamedTuple, Self

from openhpu import settings
from openhpu.settings import folders

PHASES = ("multi-enq", "enq")


class ConfigError(ValueError):
    """An option of hl-prof-config, or its file, is not valid; the text has the remedy."""


class Config(NamedTuple):
    """`session` begins the file's name, `output` is its folder, `first` and `last` the numbers of the commands that are
    traced: an operator in eager mode, a graph in lazy mode."""

    session: str = "default_profiling"
    output: str = "."
    first: int = 1
    last: int | None = None
    phase: str = "multi-enq"

    def with_range(self, text: str) -> Self:
        """`-g 1-20`, or one number. Raises ConfigError."""
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", text.strip())
        first = int(found[1]) if found else 0
        last = int(found[2] or found[1]) if found else 0
        if first < 1 or last < first:
            raise ConfigError(f"-g {text}: expected the numbers of the first and last command, such as 1-20")
        return self._replace(first=first, last=last)

    def with_session(self, name: str) -> Self:
        """`-s name`. Raises ConfigError."""
        if not name or "/" in name or name in (".", ".."):
            raise ConfigError(f"-s {name}: expected a name, without slashes: the beginning of the file's")
        return self._replace(session=name)


def path() -> Path:
    """Where the configuration is kept: HABANA_PROF_CONFIG, or ~/.habana/prof_config.json."""
    chosen = settings.get("HABANA_PROF_CONFIG")
    return Path(os.path.expanduser(chosen)) if chosen else folders.home() / ".habana" / "prof_config.json"


def load() -> Config:
    """The configuration in force; the defaults where there is no file. Raises ConfigError for one that is damaged."""
    file = path()
    try:
        kept = Config(**folders.read_object(file))
        numbers = [kept.first] if kept.last is None else [kept.first, kept.last]
        texts = [kept.session, kept.output, kept.phase]
        if any(type(one) is not int for one in numbers) or any(type(one) is not str for one in texts):
            raise TypeError("a value has the wrong type")
        return kept.with_session(kept.session)
    except FileNotFoundError:
        return Config()
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(
            f"{file} is not a file of hl-prof-config ({error}); run hl-prof-config again, or remove it"
        ) from error


def save(config: Config) -> Path:
    """Keep it. Raises OSError."""
    with folders.replacing(file := path()) as made:
        made.write(json.dumps(config._asdict(), indent=1) + "\n")
    return file
