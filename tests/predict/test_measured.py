"""`openhpu predict --from`: a recording whose times are those of a known device gives that device's figures."""

import dataclasses

import pytest

from openhpu_predict import measured
from openhpu_predict.command import main
from openhpu_predict.cost import Parameters
from openhpu_predict.devices import DATA, load
from openhpu_predict.errors import PredictError
from openhpu_record.writing import Writer, pack

SIZES = [64, 256, 1024, 2048, 4096]
TRUE = {"eager_launch": 60e-6, "hbm_measured": 1.2e12, "mme_bf16_measured": 250e12}


def tensor(*shape):
    made = {"rule": "plain", "seed": 1}
    return {"tensor": {"dtype": "bfloat16", "shape": list(shape), "made": made}}


def calls():
    for number, size in enumerate(SIZES * 3):
        yield {"op": "aten.mm.default", "args": [tensor(size, size * 2), tensor(size * 2, size)], "id": number}
        yield {"op": "aten.add.Tensor", "args": [tensor(size, size, 8), tensor(size, size, 8)], "id": number + 100}
    yield {"op": "aten.nonzero.default", "args": [tensor(5)], "id": 200}  # needs values
    yield {"op": "weather.sun.default", "args": [], "id": 201}  # unknown here


@pytest.fixture
def recorded(tmp_path):
    """Makes a recording; `seconds` of a call by its number in `calls`."""

    def make(name, seconds, **about):
        writer = Writer(tmp_path / f"{name}.part")
        writer.manifest(what="probe", environment={"name": "GAUDI2"})
        for number, call in enumerate(calls()):
            writer.event("call", mode="eager", family="", **call, seconds=seconds(number), outcome={}, **about)
        writer.close()
        return pack(tmp_path / f"{name}.part", tmp_path / f"{name}.zip", {})

    return make


@pytest.fixture
def recording(recorded):
    """A recording of a Gaudi 2 with other figures."""
    device = dataclasses.replace(load("gaudi2"), **TRUE)
    found = measured._read(recorded("first", lambda number: 1.0))
    times = [one.predicted(device, Parameters.fitted()) for one in found]
    return recorded("a", lambda number: times[number] if number < len(times) else 1.0)


def test_the_figures_of_the_device_are_found(recording, tmp_path, capsys):
    target = tmp_path / "mine.toml"
    assert main(["--from", str(recording), "--fit", str(target)]) == 0
    fitted = load(target)
    for name, value in TRUE.items():
        assert getattr(fitted, name) == pytest.approx(value, rel=0.03), name
        assert fitted.sources[name].startswith("fitted to a.zip by openhpu predict --from; it was ")
    assert fitted.mme_fp8_measured == load("gaudi2").mme_fp8_measured
    said = capsys.readouterr().out
    assert "a.zip beside gaudi2: 30 calls of eager mode" in said
    assert "error after the fit: median 0%" in said or "error after the fit: median 1%" in said
    assert "aten.mm.default" in said and "mme_bf16_measured: 4.187e+14 before" in said


def test_a_figure_that_bounds_few_calls_stays(recorded):
    path = recorded("launches", lambda number: 1e-3)  # the launch hides everything else
    _, values, _ = measured._fit(measured._read(path), load("gaudi2"), Parameters.fitted())
    assert values.keys() == {"eager_launch"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "none.zip"], "there is no recording 'none.zip'"),
        (["--from", "a.zip", "train.py"], "--from takes a recording and no script"),
        (["--fit", "new.toml", "train.py"], "--fit belongs to --from"),
        (["--from", "a.zip", "--fit", str(DATA / "gaudi9.toml")], "expected a new .toml file"),
        (["--from", "a.zip", "--fit", "there.toml"], "expected a new .toml file"),
        (["--from", "a.zip", "--fit", "new.json"], "expected a new .toml file"),
        (["--from", "a.zip", "--fit", "no/such/new.toml"], "there is no folder 'no/such'"),
        (["--from", "a.zip", "--device", "gaudi9"], "there is no device 'gaudi9'"),
    ],
)
def test_wrong_requests(recorded, tmp_path, monkeypatch, capsys, arguments, message):
    recorded("a", lambda number: 1.0)
    (tmp_path / "there.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_a_recording_without_times(recorded):
    with pytest.raises(PredictError, match="no call of eager mode with a time"):
        measured._read(recorded("b", lambda number: None))


def test_without_a_script_the_command_says_so(capsys):
    with pytest.raises(SystemExit):
        main([])
    assert "no script was given" in capsys.readouterr().err
