"""Runs commands one after the other under one budget: `python -m commands.steps NAME MINUTES COMMAND ...`.

Each command finds what is left of the budget in `BUDGET`, so that one that has a budget itself ends by that, with its
own summary. The first that fails ends it, with its exit status. What a command prints appears at once.
"""

import os
import shlex
import sys
import time

from commands import child
from commands.budget import OVER, Budget

_BEFORE_S = 6.0  # the end of a command before the end of all


def main(name: str, minutes: str, *commands: str) -> int:
    with Budget(name, float(minutes), quiet=True) as budget:
        budget.planned(commands)
        for command in commands:
            left = max(1.0, budget.seconds() - _BEFORE_S)
            environment = {**os.environ, "BUDGET": f"{left / 60:.4f}"}
            with budget.doing(name, command):
                ended = child.run(
                    shlex.split(command), seconds=budget.seconds() + 5, env=environment, grace=4.0, on_line=budget.say
                )
            if ended.code:
                over = ended.code == OVER or budget.seconds() <= _BEFORE_S
                budget.done(command, "ended by its budget" if over else ended.how)
                budget.say(*budget.summary_of(f"{command}: {'its budget is used up' if over else ended.how}"))
                if over:
                    return OVER
                return ended.code if ended.code > 0 else 1
            budget.done(command)
        budget.say(f"{name}: {(time.monotonic() - budget.started) / 60:.1f} min of {budget.minutes:g}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
