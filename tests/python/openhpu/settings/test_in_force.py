import json

import pytest

from openhpu import cli, settings
from openhpu.settings import in_force


@pytest.fixture
def nothing_overridden(monkeypatch):
    """Other tests of the process may have overridden variables for good."""
    monkeypatch.setattr(in_force, "_overrides", {})


def states():
    return {row.name: row for row in in_force.in_force()}


def test_every_variable_is_there_once(environment, nothing_overridden):
    names = [row.name for row in in_force.in_force()]
    assert len(names) == len(set(names))
    assert set(names) == {row.name for row in settings.ROWS}
    assert {row.state for row in in_force.in_force()} == {"default"}


def test_why_a_variable_is_what_it_is(environment):
    environment(
        PT_HPU_LAZY_MODE="1",
        OPENHPU_MEMORY_GB=" ",
        OPENHPU_DEVICE_COUNT="zero",
        PT_HPU_QUEUE_SYNLAUNCHES="on",
        LOG_LEVEL_PT_LAZY="1",
        PT_HPU_LOG_MOD_MASK="80",
        HABANA_VISIBLE_MODULES="3,1",
        PT_HPU_LAZY_MODES="1",
    )
    found = states()
    with settings.overridden("PT_COMPILE_ONLY_MODE", True):
        assert states()["PT_COMPILE_ONLY_MODE"].state == "overridden"
    assert (found["PT_HPU_LAZY_MODE"].state, found["PT_HPU_LAZY_MODE"].value) == ("set", "1")
    assert "read at import" in found["PT_HPU_LAZY_MODE"].why
    assert found["OPENHPU_MEMORY_GB"].why == "empty, which counts as unset"
    assert found["OPENHPU_DEVICE_COUNT"].state == "invalid"
    assert "a whole number from 1 to 64" in found["OPENHPU_DEVICE_COUNT"].why
    assert (found["PT_HPU_QUEUE_SYNLAUNCHES"].state, found["PT_HPU_QUEUE_SYNLAUNCHES"].value) == ("idle", "1")
    assert found["LOG_LEVEL_PT_LAZY"].value == "1"
    assert "LOG_LEVEL_PT_*" not in found
    assert found["PT_HPU_LOG_MOD_MASK"].value == "80"
    assert found["HABANA_VISIBLE_MODULES"].value == "3,1"
    assert "Did you mean PT_HPU_LAZY_MODE?" in found["PT_HPU_LAZY_MODES"].why


def test_the_command(environment, nothing_overridden, capsys):
    assert cli.main(["env", "--set"]) == 0
    assert "everything is at its default" in capsys.readouterr().out
    environment(OPENHPU_COMPILE="sync")
    assert cli.main(["env", "--set", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["value"], row["state"]) == ("OPENHPU_COMPILE", "sync", "set")
    assert cli.main(["env"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(settings.ROWS)
    environment(OPENHPU_COMPILE="never")
    assert cli.main(["env"]) == 1
    assert "[invalid: allowed: background, sync, off]" in capsys.readouterr().out
