import warnings

import pytest

from openhpu import settings
from openhpu.settings import access


def test_default_of_an_unset_and_of_an_empty_variable(environment):
    assert settings.get("PT_HPU_LAZY_MODE") == "0"
    environment(OPENHPU_SPIN_US=" ")
    assert settings.get("OPENHPU_SPIN_US") == 200
    assert not settings.is_set("OPENHPU_SPIN_US")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("OPENHPU_DEVICE_COUNT", "4", 4),
        ("OPENHPU_MEMORY_GB", "0.5", 0.5),
        ("OPENHPU_PROTECT_MEMORY", "True", True),
        ("OPENHPU_MODULE_LOCKS", "off", False),
        ("HABANA_VISIBLE_MODULES", "3, 1", (3, 1)),
        ("PT_HPU_METRICS_DUMP_TRIGGERS", "mark_step,process_exit", ("mark_step", "process_exit")),
        ("LOG_LEVEL_PT_FALLBACK", "1", 1),
        ("PT_HPU_PLACE_ON_CPU", "none", "none"),
    ],
)
def test_typed_values(environment, name, text, value):
    environment(**{name: text})
    assert settings.get(name) == value


LIST = "HABANA_VISIBLE_MODULES"


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("OPENHPU_GENERATION", "gaudi4", "allowed: gaudi, gaudi2, gaudi3"),
        ("OPENHPU_DEVICE_COUNT", "0", "allowed: a whole number from 1 to 64"),
        ("OPENHPU_DEVICE_COUNT", "two", "allowed: a whole number from 1 to 64"),
        ("OPENHPU_MEMORY_GB", "nan", "allowed: a number from 0 to 65536"),
        ("OPENHPU_PROTECT_MEMORY", "maybe", "allowed: 1, true, yes, on or 0, false, no, off"),
        ("OPENHPU_STRICT", "gaudi4", "allowed: (empty), gaudi"),
        ("HABANA_PROFILE", "full", "allowed: (empty), 0, 1, profile_api_light, profile_api"),
        ("PT_HPU_LOG_MOD_MASK", "x8", "allowed: a hexadecimal number, with or without 0x"),
        ("HLS_MODULE_ID", "64", "allowed: a whole number from 0 to 63"),
        ("OPENHPU_MODULE_WAIT_S", "-1", "allowed: a number from 0 to 86400"),
        ("PT_HPU_LAZY_MODE", "2", "allowed: 0, 1"),
        ("PT_HPU_METRICS_DUMP_TRIGGERS", "never", "allowed: one or more of process_exit, mark_step, metric_change"),
        ("LOG_LEVEL_PT_FALLBACK", "7", "allowed: a whole number from 0 to 6"),
        (LIST, "0,0", "0 is given twice; allowed: distinct whole numbers from 0 to 63, separated by commas. Change it"),
        (LIST, "3, 1,2,3", "3 is given twice"),
        (LIST, "-1", "-1 is out of range"),
        (LIST, "0,64", "64 is out of range"),
        (LIST, ",".join(map(str, range(65))), "64 is out of range"),  # as many as there are, and one more
        (LIST, ",".join("0" for _ in range(65)), "0 is given twice"),
        (LIST, "0,99999999999999999999", "99999999999999999999 is out of range"),
        (LIST, "all", "'all' is not a whole number"),
        (LIST, "0,,1", "'' is not a whole number"),
        (LIST, "1.5", "'1.5' is not a whole number"),
    ],
)
def test_a_bad_value_names_variable_value_and_its_flaw_or_what_is_allowed(environment, name, text, told):
    environment(**{name: text})
    with pytest.raises(settings.SettingError) as error:
        settings.check_environment()
    said = f"environment variable {name}={text!r} is not valid{': ' if name == LIST else '; '}{told}"
    assert str(error.value).startswith(said)


def test_a_list_may_name_every_module(environment):
    environment(HABANA_VISIBLE_MODULES=",".join(map(str, range(64))))
    assert settings.device_setup().modules == tuple(range(64))


def test_an_unknown_variable_warns_once_with_the_nearest_known_one(environment):
    environment(PT_HPU_LAZY_MODES="1")
    with pytest.warns(RuntimeWarning, match="PT_HPU_LAZY_MODES is unknown.*PT_HPU_LAZY_MODE"):
        settings.check_environment()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        settings.check_environment()


def test_members_of_a_family_are_known(environment):
    environment(PT_HPU_DISABLE_pass_eagerize_leaf_views="1")
    settings.check_environment()
    assert settings.get("PT_HPU_DISABLE_pass_eagerize_leaf_views") is True


def test_overridden_wins_over_the_environment_and_ends(environment):
    environment(PT_COMPILE_ONLY_MODE="0")
    with settings.overridden("PT_COMPILE_ONLY_MODE", True):
        assert settings.get("PT_COMPILE_ONLY_MODE") is True
        with pytest.raises(settings.SettingError), settings.overridden("PT_COMPILE_ONLY_MODE", "perhaps"):
            pass
        assert settings.get("PT_COMPILE_ONLY_MODE") is True
    assert settings.get("PT_COMPILE_ONLY_MODE") is False


def test_who_follows_a_variable_is_told_its_values(environment, monkeypatch):
    environment(PT_COMPILE_ONLY_MODE="0")
    monkeypatch.setattr(access, "_followers", {})
    told = []
    settings.follow("PT_COMPILE_ONLY_MODE", told.append)
    with settings.overridden("PT_COMPILE_ONLY_MODE", True):
        assert told == [False, True]
    assert told == [False, True, False]
    monkeypatch.setattr(access, "_overrides", {})
    settings.override("PT_COMPILE_ONLY_MODE", True)
    assert told[3:] == [True]


def test_an_unknown_name_is_a_key_error():
    with pytest.raises(KeyError, match=r"docs/environment\.md"):
        settings.get("PT_HPU_NO_SUCH_FLAG")
