"""Another user made the folder of a user without a home, with hl-prof-config's file in it. It must be an error."""

from tests.attacks import STRANGER, give_away
from tests.attacks.hostile_profile_config import error, kept

GUARD = {"os.geteuid": lambda: STRANGER}


def attack(folder):
    kept(folder).write_text('{"output": "/etc"}')
    give_away(kept(folder))
    assert f"belongs to user {STRANGER}" in error()
