"""What is recorded of a script: the sampled steps, their operators with lines and numbers, and no input."""

import json
import os

import pytest
import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

import openhpu_record
from openhpu_record.errors import RecordError
from openhpu_record.reading import Recording
from openhpu_record.replay.running import replayed


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(7, 8)
        self.norm = torch.nn.LayerNorm(8)
        self.head = torch.nn.Linear(8, 7)

    def forward(self, x):
        return self.head(self.norm(self.embed(x)).relu())


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    """A recording of step 2 of 4, the modes that were on in each step, and the model's weights afterwards."""
    folder = tmp_path_factory.mktemp("training")
    torch.manual_seed(0)
    net = Net().to("hpu")
    optimizer = torch.optim.AdamW(net.parameters())
    x = torch.arange(6).to("hpu")
    modes = []
    with openhpu_record.record(folder / "a.zip", steps=[2]) as recorder:
        for _ in range(4):
            modes.append(_get_current_dispatch_mode() is recorder)
            torch.nn.functional.cross_entropy(net(x), x).backward()
            optimizer.step()
            optimizer.zero_grad()
    with Recording(folder / "a.zip") as found:
        yield found, modes, net


def events(recording, kind):
    return list(recording.events(kind))


def test_the_mode_is_on_in_the_sampled_step_alone(training):
    recording, modes, _ = training
    assert modes == [False, False, True, False]
    assert {event["step"] for event in events(recording, "operator")} == {2}
    steps = events(recording, "step")
    assert [step["number"] for step in steps if step["sampled"]] == [2]
    assert [step["number"] for step in steps if step.get("synchronized")] == [1, 2]
    assert events(recording, "problem") == []


def test_operators_have_forms_numbers_lines_and_their_pass(training):
    recording, _, _ = training
    forms = {event["call"]: event for event in events(recording, "form")}
    operators = events(recording, "operator")
    by_name = {forms[event["call"]]["op"]: event for event in operators}
    norm = by_name["aten.native_layer_norm.default"]
    assert norm["results"][0]["shape"] == [6, 8] and norm["results"][0]["dtype"] == "float32"
    assert norm["results"][0]["numbers"]["rms"] == pytest.approx(1.0, abs=0.01)
    assert "test_recorder.py:" in norm["line"]  # below the folder of the script
    assert not norm["backward"]
    assert by_name["aten.native_layer_norm_backward.default"]["backward"]
    assert forms[norm["call"]]["schema"].startswith("aten::native_layer_norm(Tensor input")
    assert all(len(result["hash"]) == 16 for result in norm["results"])


def test_neither_inputs_nor_weights_nor_folders_are_in_the_file(training, tmp_path):
    recording, _, net = training
    assert not any("kept" in json.dumps(call["args"]) for call in events(recording, "call"))
    text = json.dumps([recording.manifest, *recording.all_events()])
    assert str(tmp_path.parent) not in text and "/work" not in text and "/home" not in text
    weights = {tuple(one.detach().cpu().flatten().tolist()[:4]) for one in net.parameters()}
    for call in events(recording, "call"):
        for result in call["outcome"]["results"]:
            if result.get("kept"):
                assert tuple(recording.kept(result["kept"]).double().flatten().tolist()[:4]) not in weights


def test_calls_are_replayed_with_made_inputs(training):
    recording, _, _ = training
    rows = replayed(recording, "hpu", "eager")
    assert len(rows) == len(events(recording, "call")) > 10
    assert {row["outcome"] for row in rows} == {"equal"}
    assert events(recording, "after")[0]["done"] == len(rows)


def test_indices_are_made_within_the_bound_that_was_seen(training):
    recording, _, _ = training
    (call,) = (one for one in events(recording, "call") if one["op"] == "aten.embedding.default")
    assert call["args"][1]["tensor"]["made"] == {"rule": "index", "seed": call["id"] * 31 + 2, "bound": 6}


def test_inputs_are_kept_if_asked_for(tmp_path):
    x = torch.linspace(0, 1, 12).reshape(3, 4).to("hpu")
    y = x.clone()
    with openhpu_record.record(tmp_path / "b.zip", steps=[0], with_inputs=True):
        y.mul_(x.t().contiguous().t()).add_(1)
    with Recording(tmp_path / "b.zip") as found:
        product = next(one for one in events(found, "call") if one["op"] == "aten.mul_.Tensor")
        assert torch.equal(found.kept(product["args"][0]["tensor"]["kept"]), x.cpu())
        rows = replayed(found, "hpu", "eager")
    assert {row["outcome"] for row in rows} == {"equal"} and len(rows) >= 2


def test_a_recording_of_inference_counts_forward_passes(tmp_path):
    net = Net().to("hpu")
    with openhpu_record.record(tmp_path / "c.zip", steps=[1], after=0.0), torch.no_grad():
        for _ in range(3):
            net(torch.arange(6).to("hpu"))
    with Recording(tmp_path / "c.zip") as found:
        assert [step["number"] for step in events(found, "step")] == [0, 1, 2, 3]
        assert {event["step"] for event in events(found, "operator")} == {1}
        assert events(found, "after")[0]["done"] == 0  # no time


def test_steps_by_hand(tmp_path):
    x = torch.ones(3).to("hpu")
    with openhpu_record.record(tmp_path / "d.zip", every=2, after=0.0):
        for _ in range(4):
            x.add_(1)
            openhpu_record.step()
    with Recording(tmp_path / "d.zip") as found:
        assert {event["step"] for event in events(found, "operator")} == {1, 3}


def test_a_fault_of_the_recorder_is_an_event_and_the_script_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr("openhpu_record.describing.digest", lambda host: 1 / 0)
    with openhpu_record.record(tmp_path / "e.zip", steps=[0], after=0.0):
        total = (torch.ones(3).to("hpu") + 1).sum().item()
    assert total == 6.0
    with Recording(tmp_path / "e.zip") as found:
        assert "ZeroDivisionError" in events(found, "problem")[0]["text"]


def test_an_error_of_the_script_is_its_own(tmp_path):
    with pytest.raises(KeyError), openhpu_record.record(tmp_path / "f.zip", steps=[0]):
        torch.ones(3).to("hpu").add_(1)
        raise KeyError("x")
    with Recording(tmp_path / "f.zip") as found:
        assert found.manifest["end"]["why"] == "KeyError"
        assert events(found, "ended")[0]["error"] == "KeyError" and events(found, "operator")
        assert events(found, "call") == []


def test_a_process_that_the_script_forks_writes_nothing(tmp_path):
    x = torch.ones(3)
    with openhpu_record.record(tmp_path / "j.zip", device="cpu", steps=[0], after=0.0):
        x.add_(1)
        process = os.fork()
        if not process:  # as a worker of a data loader
            try:
                x.mul_(2)
                openhpu_record.step()
            finally:
                os._exit(0)
        os.waitpid(process, 0)
    with Recording(tmp_path / "j.zip") as found:
        assert [form["op"] for form in events(found, "form")] == ["aten.add_.Tensor"]
        assert len(events(found, "step")) == 1


def test_one_recording_at_a_time(tmp_path):
    with (
        openhpu_record.record(tmp_path / "g.zip", after=0.0),
        pytest.raises(RecordError, match="in progress"),
        openhpu_record.record(tmp_path / "h.zip"),
    ):
        pass


def test_inputs_that_are_too_large_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr("openhpu_record.recorder._MOST_CALL", 1000)
    monkeypatch.setattr("openhpu_record.calls.MOST_BYTES", 1000)
    with openhpu_record.record(tmp_path / "i.zip", steps=[0]):
        torch.ones(1000).to("hpu").add(1)
        torch.ones(10).to("hpu").add(1)
    with Recording(tmp_path / "i.zip") as found:
        calls = [call for call in events(found, "call") if call["op"] == "aten.add.Tensor"]
        assert ["skipped" in call["outcome"] for call in calls] == [True, False]
        outcomes = [row["outcome"] for row in replayed(found, "hpu", "eager") if row["op"] == "aten.add.Tensor"]
    assert outcomes == ["unchecked", "equal"]
