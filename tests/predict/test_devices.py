import re

import pytest

from openhpu_predict import PredictError, load, network
from openhpu_predict.devices import DATA, LINKS

TEXT = (DATA / "gaudi2.toml").read_text()
HBM = next(line for line in TEXT.splitlines() if line.startswith("hbm_bytes"))


@pytest.mark.parametrize("name", ["gaudi2", "gaudi3"])
def test_device_files_are_complete(name):
    device = load(name)
    assert device.name == name
    assert all(device.sources.values())
    assert set(device.assumed) >= {"graph_launch", "eager_launch", "hop_latency"}


def test_a_gaudi_3_is_not_slower_in_any_published_figure():
    two, three = load("gaudi2"), load("gaudi3")
    for key in ("mme_bf16_peak", "mme_fp8_peak", "mme_bf16_measured", "hbm_bytes", "hbm_bandwidth", "port_bandwidth"):
        assert getattr(three, key) > getattr(two, key), key


def test_a_user_adds_a_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(TEXT.replace("value = 2.46e12", "value = 5e12"))
    assert load(path).hbm_bandwidth == 5e12
    assert load(path).name == "mine"


@pytest.mark.parametrize(
    "text, message",
    [
        (TEXT.replace(HBM, ""), "'hbm_bytes' is missing"),
        (TEXT.replace("value = 2.46e12", "value = -1"), "'hbm_bandwidth' is -1; expected a number above 0"),
        (TEXT.replace("value = 2.46e12", "value = nan"), "'hbm_bandwidth' is nan"),
        (TEXT.replace("value = 2.46e12", "value = true"), "'hbm_bandwidth' is True"),
        (TEXT.replace("value = 2.46e12", "value = 'much'"), "'hbm_bandwidth' is 'much'"),
        (TEXT.replace(HBM, "hbm_bytes = 5"), "'hbm_bytes' has no source"),
        (TEXT + "\nspeed = { value = 1, source = 'x' }\n", "unknown figure 'speed'"),
        (TEXT.replace("[figures]", "[other]"), "the table [figures] is missing"),
        (TEXT + "\n=\n", "is not a TOML file"),
    ],
)
def test_a_bad_file_is_named_with_its_key(tmp_path, text, message):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(PredictError, match=f"{re.escape(str(path))}.*{re.escape(message)}"):
        load(path)


def test_a_file_has_all_links_or_none(tmp_path):
    lines = TEXT.splitlines()
    without = [line for line in lines if line.partition(" =")[0] not in LINKS]
    path = tmp_path / "alone.toml"
    path.write_text("\n".join(without))
    device = load(path)
    assert (device.linked, device.node_cards) == (False, 1)
    assert network.seconds("all_reduce", 1e9, range(1), device) == 0
    with pytest.raises(PredictError, match=r"the device alone has no links.*port_bandwidth.*or one card"):
        network.seconds("all_reduce", 1e9, range(2), device)
    path.write_text("\n".join(line for line in lines if not line.startswith("hop_latency")))
    with pytest.raises(PredictError, match="'hop_latency' is missing"):
        load(path)


@pytest.mark.parametrize("name", ["gaudi9", "none.toml"])
def test_an_unknown_device(name):
    with pytest.raises(PredictError, match=f"no device '{name}'; expected gaudi2, gaudi3 or a .toml file"):
        load(name)
