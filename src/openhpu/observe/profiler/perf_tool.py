"""The command `habana_perf_tool`: Gaudi's name for a summary of a trace (`openhpu trace FILE`)."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from openhpu.observe.profiler import reading, summary
from openhpu.settings.output import write_output

_NAME = "habana_perf_tool"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the summary. Returns the exit code: 0; 1 where it can't be printed; 2 for a file that is no trace."""
    parser = argparse.ArgumentParser(prog=_NAME, description="Sum a trace up, as `openhpu trace FILE` does.")
    parser.add_argument("file", nargs="?", help="a trace, of torch.profiler or HABANA_PROFILE=1")
    parser.add_argument("-t", "--trace", metavar="FILE", help="the same")
    options = parser.parse_args(arguments)
    file = options.trace or options.file
    if file is None or (options.trace and options.file):
        parser.error("give one trace: habana_perf_tool --trace FILE")
    try:
        text = summary.of_file(Path(file))
    except reading.TraceError as error:
        print(f"{_NAME}: {error}", file=sys.stderr)
        return 2
    write_output(_NAME, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
