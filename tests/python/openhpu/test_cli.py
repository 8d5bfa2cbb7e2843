import pytest

from openhpu import cli


def test_other_distributions_add_subcommands(tmp_path, monkeypatch, capsys):
    info = tmp_path / "weather-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: weather\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[openhpu.commands]\nweather = openhpu_weather:main\nrun = openhpu_weather:none\n"
    )
    (tmp_path / "openhpu_weather.py").write_text("def main(arguments):\n    return len(arguments)\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert cli.main(["weather", "--of", "today"]) == 2
    assert cli.main(["run", str(tmp_path / "missing.py")]) == 2  # its own
    assert "there is no script" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "distribution"),
    [
        ("port", "openhpu-port"),
        ("compare", "openhpu-port"),
        ("predict", "openhpu-predict"),
        ("replay", "openhpu-record"),
    ],
)
def test_a_subcommand_of_a_distribution_that_is_not_installed(command, distribution, monkeypatch, capsys):
    monkeypatch.setattr(cli, "entry_points", lambda group: ())
    assert cli.main([command, "train.py", "--some-option"]) == 2
    assert capsys.readouterr().err == (
        f"openhpu {command}: of {distribution}, which is not installed; in a clone of OpenHPU: "
        f"pip install ./{distribution}\n"
    )
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    assert f"pip install ./{distribution}" in " ".join(capsys.readouterr().out.split())


def test_subcommands_of_distributions_that_are_installed_are_theirs(monkeypatch, capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    assert "not installed" not in capsys.readouterr().out
