import json

import pytest
import torch

import openhpu
from openhpu import events


def stats(metric):
    return dict(metric.stats())


def fall_back():
    torch.linalg.svdvals(torch.eye(2, device="hpu"))


def test_names(hpu):
    compilation = hpu.metrics.metric_global("graph_compilation")
    assert compilation.name() == "graph_compilation"
    assert [tag for tag, _ in compilation.stats()] == ["TotalNumber", "TotalTime", "AvgTime"]
    defragmentation = hpu.metrics.metric_global("memory_defragmentation")
    assert [tag for tag, _ in defragmentation.stats()] == ["TotalNumber", "TotalSuccessful", "AvgTime", "MaxTime"]
    assert hpu.metrics.metric_global("no_such_metric") is None
    with (
        pytest.raises(hpu.metrics.MetricNotFound, match="there are: graph_compilation, cpu_fallback"),
        hpu.metrics.metric_localcontext("no_such_metric"),
    ):
        pass


def test_fallbacks_of_a_part(hpu):
    fall_back()
    with hpu.metrics.metric_localcontext("cpu_fallback") as local:
        assert stats(local) == {"TotalNumber": 0, "FallbackOps": {}}
        fall_back()
        inside = stats(local)
    fall_back()
    assert inside["TotalNumber"] == sum(inside["FallbackOps"].values()) > 0
    assert stats(local) == inside


def test_fallbacks_survive_a_reset_of_the_counters(hpu):
    metric = hpu.metrics.metric_global("cpu_fallback")
    metric.reset()
    assert stats(metric)["TotalNumber"] == 0
    fall_back()
    one = stats(metric)["TotalNumber"]
    openhpu.reset_counters()
    assert stats(metric)["TotalNumber"] == one > 0
    fall_back()
    assert stats(metric)["TotalNumber"] == 2 * one


def test_changes_are_told(hpu):
    changes = []
    with hpu.metrics.metric_localcontext("cpu_fallback") as local:
        local.on_metric_change(changes.append)
        fall_back()
    assert changes
    assert set(changes) == {local}
    assert not events._asked_kinds


def test_the_compilers_time_is_counted_from_events(hpu, environment):
    environment(PT_HPU_METRICS_GC_DETAILS="1")
    with hpu.metrics.metric_localcontext("graph_compilation") as local:
        graph = torch.hpu.HPUGraph()
        x = torch.ones(3, device="hpu")
        with torch.hpu.graph(graph):
            x.add_(1).mul_(7).sub_(3)
        events.publish("graph_compilation", {"duration": 30, "recipe": "a"})
        events.publish("graph_compilation", {"duration": 10, "recipe": "b"})
    events.publish("graph_compilation", {"duration": 10, "recipe": "c"})
    assert local.stats() == [("TotalNumber", 1), ("TotalTime", 40), ("AvgTime", 40), ("recipe", [("a", 30), ("b", 10)])]
    local.reset()
    assert stats(local)["recipe"] == []
    hpu.metrics.metric_global("graph_compilation").reset()


def test_defragmentations_and_cache_lookups(hpu):
    with hpu.metrics.metric_localcontext("memory_defragmentation") as local:
        events.publish("memory_defragmentation", {"success": True, "milliseconds": 4.0})
        events.publish("memory_defragmentation", {"success": False, "milliseconds": 9.0})
    assert stats(local) == {"TotalNumber": 2, "TotalSuccessful": 1, "AvgTime": 4.0, "MaxTime": 4.0}
    hpu.metrics.metric_global("memory_defragmentation").reset()
    cache = hpu.metrics.RecipeCache()
    cache.start()
    for kind in ("cache_miss", "cache_hit", "cache_hit"):
        events.publish(kind, {"recipe_id": "r"})
    cache.stop()
    assert stats(cache) == {"TotalHit": 2, "RecipeHit": {"r": 2}, "TotalMiss": 1, "RecipeMiss": {"r": 1}}


@pytest.mark.parametrize("name", ["metrics.json", "folder/metrics.json"])
def test_dump_as_json(hpu, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):  # the second replaces the first
        hpu.metrics.metrics_dump(name)
    records = json.loads((tmp_path / name).read_text())
    names = [record["metric_name"] for record in records]
    assert names == ["graph_compilation", "cpu_fallback", "memory_defragmentation"]
    assert {record["triggered_by"] for record in records} == {"user"}
    assert set(records[0]) == {"metric_name", "triggered_by", "generated_on", "statistics"}


def test_dump_as_text(hpu, tmp_path):
    file = tmp_path / "metrics.txt"
    hpu.metrics.metrics_dump(file, hpu.metrics.MetricDumpFormat.text)
    first, *_ = file.read_text().split("\n\n")
    assert first.splitlines()[:2] == ["Metric name: graph_compilation", "Triggered by: user"]
    assert "\tTotalNumber: 0" in first
    with pytest.raises(ValueError, match="xml"):
        hpu.metrics.metrics_dump(file, "xml")


def test_files_by_environment(script, tmp_path):
    (tmp_path / "m-rank3.json").write_text("taken")
    code = """
        import habana_frameworks.torch as ht, os
        ht.core.mark_step()  # no device yet: nothing is written
        assert not os.path.exists("m-rank3.json.1")
        ht.torch.linalg.svdvals(ht.torch.eye(2, device="hpu"))
        ht.core.mark_step()
    """
    asked = {"PT_HPU_METRICS_DUMP_TRIGGERS": "process_exit,mark_step,metric_change", "PT_HPU_ENABLE_CACHE_METRICS": "1"}
    script(code, PT_HPU_METRICS_FILE="m.json", RANK="3", **asked)
    assert (tmp_path / "m-rank3.json").read_text() == "taken"
    records = json.loads((tmp_path / "m-rank3.json.1").read_text())
    triggers = [record["triggered_by"] for record in records]
    assert triggers == ["metric_change"] * (len(triggers) - 8) + ["mark_step"] * 4 + ["process_exit"] * 4
    assert len(triggers) > 8
    assert [record["metric_name"] for record in records[-4:]][-1] == "recipe_cache"
    assert records[-3]["statistics"]["TotalNumber"] > 0
