"""What the commands print."""

import os
import sys


def write_output(command: str, text: str, code: int = 0) -> None:
    """Print a result. If that is not possible, the command ends: with `code`, or with 1 if that is 0, and the reason.

    A reader that went away, as `head` does, is no error: then it ends with `code`.
    """
    try:
        print(text, flush=True)
    except OSError as error:
        # What was not written would be written again at exit, which is an error there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"{command}: the output can't be written: {error.strerror}", file=sys.stderr)
            code = code or 1
        sys.exit(code)
