import pytest

from openhpu.observe.profiler import config, config_cli


@pytest.fixture
def kept(tmp_path, environment):
    environment(HABANA_PROF_CONFIG=str(tmp_path / "deep" / "prof_config.json"))
    return tmp_path / "deep" / "prof_config.json"


def test_the_documented_call(kept, capsys):
    assert config_cli.main(["-e", "off", "-phase=multi-enq", "-g", "1-20", "-s", "my_profiling_session"]) == 0
    assert config.load() == config.Config(session="my_profiling_session", first=1, last=20)
    assert f"{kept}: commands 1 to 20, into ./my_profiling_session_<process>.hltv" in capsys.readouterr().out


def test_options_that_are_not_given_are_reset(kept, tmp_path):
    assert config_cli.main(["-g", "5", "-s", "a", "-o", str(tmp_path)]) == 0
    assert config.load() == config.Config(session="a", output=str(tmp_path), first=5, last=5)
    assert config_cli.main([]) == 0
    assert config.load() == config.Config()


def test_show_changes_nothing(kept, capsys):
    assert config_cli.main(["--show"]) == 0
    assert "commands 1 to the last" in capsys.readouterr().out
    assert not kept.exists()


@pytest.mark.parametrize(
    "arguments", [["-g", "0-3"], ["-g", "5-2"], ["-g", "x"], ["-s", "a/b"], ["-s", ""], ["-e", "on"]]
)
def test_wrong_options(kept, capsys, arguments):
    assert config_cli.main(arguments) == 2
    assert " ".join(arguments) in capsys.readouterr().err
    assert not kept.exists()


def test_a_place_that_cannot_be_written(environment, capsys):
    environment(HABANA_PROF_CONFIG="/proc/nowhere/prof.json")
    assert config_cli.main([]) == 1
    assert "can't be written" in capsys.readouterr().err
