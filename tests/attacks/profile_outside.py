"""The name of a session in hl-prof-config's file leads to another folder. It must be an error that names the file."""

import json

from tests.attacks.hostile_profile_config import error, kept

GUARD = {"openhpu.observe.profiler.config.Config.with_session": lambda self, name: self}


def attack(folder):
    for session in ("../../planted", "/etc/planted", "..", ""):
        kept(folder).write_text(json.dumps({"session": session}))
        assert "prof.json" in error()
