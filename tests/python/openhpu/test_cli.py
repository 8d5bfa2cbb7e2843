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
