"""Published rows: their kinds, and what is told of their errors."""

import math
import tomllib

import pytest
import torch

from openhpu_predict import fake, load, record
from openhpu_predict.cost import Parameters
from openhpu_predict.devices import DATA
from openhpu_predict.prediction import DECODE, GROUPED, PREFILL, TRAINING, kind_of, model_error
from openhpu_predict.published import Row, Traced, errors, kind_of_row, rows, table

SMALL = {"model": "llama3.1-8b", "device": "gaudi2", "batch": 2, "input": 128, "output": 8, "unit": "ms", "source": ""}


def row(kind="later", published=1.0, fitted=False, **more):
    return Row(**(SMALL | {"kind": kind, "published": published, "fitted": fitted} | more))


def test_kinds_of_rows():
    kinds = {kind_of_row(one) for one in rows()}
    assert kinds == {TRAINING, PREFILL, DECODE, GROUPED}
    assert kind_of_row(row("generate", model="llama2-7b")) == DECODE
    assert kind_of_row(row("generate")) == GROUPED


def test_a_recording_has_the_kind_of_its_row():
    traced = Traced(row())
    assert kind_of(traced.recordings["token"].nodes) == GROUPED
    assert kind_of(traced.recordings["prefill"].nodes) == PREFILL
    with fake():
        x = torch.empty(8, 8, device="hpu", requires_grad=True)
    assert kind_of(record(lambda: (x @ x).sum().backward(), steps=1).nodes) == TRAINING
    assert kind_of(record(lambda: x + 1, steps=1).nodes) is None


def test_bf16_rows_move_twice_the_bytes_of_fp8():
    fp8, bf16 = (Traced(row(precision=precision)).recordings["token"] for precision in ("fp8", "bf16"))

    def weights(recording):
        return sum(max(node.reads.values()) for node in recording.nodes if node.products and node.products[0][0] == 1)

    assert weights(bf16) == 2 * weights(fp8)
    assert not any(node.op == "cast_to_fp8_v2" for node in bf16.nodes)


def test_a_first_token_has_the_hosts_share_and_a_later_one_has_not():
    parameters = Parameters(1.0, 1.0, 1.0, 0.0, 0.0)
    with_host = Parameters(1.0, 1.0, 1.0, 0.0, 5e-3)
    device = load("gaudi2")
    for kind, more in (("first", 5.0), ("later", 0.0)):
        traced = Traced(row(kind))
        difference = traced.result(device, with_host) - traced.result(device, parameters)
        assert difference == pytest.approx(more)


def test_logits_of_all_positions_cost_more():
    device, parameters = load("gaudi2"), Parameters.fitted()
    last, every = (Traced(row("first", all_logits=all_of)).result(device, parameters) for all_of in (False, True))
    assert every > last


def test_errors_by_kind():
    found = [
        (row("generate", published=100.0), 110.0),
        (row("generate", published=100.0), 80.0),
        (row("generate", published=100.0, fitted=True), 300.0),
        (row("generate", published=100.0, device="gaudi3"), 70.0),
        (row("first", published=100.0, fitted=True), 101.0),
    ]
    by_kind = {(one["name"], one["device"]): one for one in errors(found)}
    assert by_kind[GROUPED, "gaudi2"]["rows"] == 2
    assert by_kind[GROUPED, "gaudi2"]["median"] == pytest.approx(0.15)
    assert by_kind[GROUPED, ""]["worst"] == pytest.approx(0.3)
    assert by_kind[PREFILL, "gaudi2"]["fitted"]
    assert by_kind["all", ""]["rows"] == 3


def test_the_table_shows_the_error_before():
    one = row("first", published=100.0)
    text = table([(one, 110.0)], {one.name: 50.0})
    assert f"| {one.name} | 100 ms | 110 | +10% | -50% |" in text
    assert f"| {PREFILL}, gaudi2 | 1 | 10% | 10% |" in text


def test_a_prediction_quotes_the_rows_of_its_kind():
    kinds = {(one["name"], one["device"]): one for one in tomllib.loads((DATA / "errors.toml").read_text())["kind"]}
    there = kinds[GROUPED, "gaudi2"]
    assert model_error(GROUPED, load("gaudi2")) == (
        f"median {there['median']:.0%}, worst {there['worst']:.0%}, of {there['rows']} rows ({GROUPED} on gaudi2) "
        "that were not fitted"
    )
    assert f"of {kinds['all', '']['rows']} rows that were not fitted" in model_error(None, load("gaudi2"))


def test_parameters_are_shares():
    parameters = Parameters.fitted()
    assert 0 < parameters.matmul_efficiency <= 1 and 0 < parameters.tpc_efficiency <= 1
    for name in ("gaudi2", "gaudi3"):
        device = load(name)
        assert device.hbm_measured * parameters.hbm_efficiency < device.hbm_bandwidth
        assert math.isfinite(device.hop_latency)
