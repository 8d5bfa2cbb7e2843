"""A file of another user's says what this process does. hl-smi must not show it."""

import os

from openhpu.observe.smi import state_files
from tests.attacks import give_away

checked = state_files._checked
GUARD = {"openhpu.observe.smi.state_files._checked": lambda record, owner: checked(record, os.geteuid())}


def attack(folder):
    path = state_files.path_of(folder, 0)
    file = state_files.create(path)
    state_files.write(file, state_files.State(os.getpid(), 0, 50, 1, 2, "planted"))
    assert len(state_files.read_all(folder)) == 1
    give_away(path)
    assert not state_files.read_all(folder)
