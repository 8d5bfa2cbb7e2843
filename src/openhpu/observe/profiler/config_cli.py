"""The command `hl-prof-config`. Exit codes: 0; 1 where the file can't be written; 2 for a wrong argument."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from openhpu import settings
from openhpu.observe.profiler import config
from openhpu.observe.profiler.config import PHASES, ConfigError
from openhpu.settings.output import write_output


def main(arguments: Sequence[str] | None = None) -> int:
    """Store the options, and print the current ones. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="hl-prof-config",
        allow_abbrev=False,
        description="What HABANA_PROFILE=1 traces of a process, and where to (OpenHPU). Options that are not given "
        "are reset to their defaults.",
    )
    add = parser.add_argument
    add("-e", "--edit", choices=("off", "on"), default="off", help="off; there is no interactive editor")
    add("-phase", "--phase", choices=PHASES, default="multi-enq", help="enq: of the range only its first command")
    add("-g", "--range", metavar="FIRST-LAST", help="numbers of the commands to trace; default: all")
    add("-s", "--session", metavar="NAME", help="the file is NAME_<process>.hltv; default: default_profiling")
    add("-o", "--output", metavar="FOLDER", help="folder of the file; default: the process's")
    add("--show", action="store_true", help="print the current choices and change nothing")
    options = parser.parse_args(arguments)
    try:
        if options.show:
            chosen = config.load()
        else:
            if options.edit == "on":
                raise ConfigError("-e on: there is no interactive editor; give the options")
            chosen = config.Config(phase=options.phase)
            if options.range:
                chosen = chosen.with_range(options.range)
            if options.session is not None:
                chosen = chosen.with_session(options.session)
            if options.phase == "enq":
                chosen = chosen._replace(last=chosen.first)
            if options.output:
                chosen = chosen._replace(output=str(Path(os.path.expanduser(options.output)).absolute()))
            config.save(chosen)
    except (ConfigError, settings.SettingError) as error:
        print(f"hl-prof-config: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"hl-prof-config: {config.path()} can't be written: {error.strerror}", file=sys.stderr)
        return 1
    last = "the last" if chosen.last is None else str(chosen.last)
    target = f"{chosen.output}/{chosen.session}_<process>.hltv"
    write_output("hl-prof-config", f"{config.path()}: commands {chosen.first} to {last}, into {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
