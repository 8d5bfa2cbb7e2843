"""A lane's page keeps the runs that another checkout wrote."""

from commands import ROOT
from ecosystem import page
from ecosystem.lanes import LANES


def test_one_run_leaves_the_others_on_the_page(tmp_path):
    lane = LANES["torch-distributed"]
    name = "torch-distributed"
    before = (ROOT / f"docs/ecosystem/{name}.md").read_text()
    page.keep(tmp_path, lane.runs[1].title, "abc, 2026-01-01", [page.Case("case", "passed", "", 60.0)])
    after = page.tests_text(lane, "torch", tmp_path, before)
    assert f"| {lane.runs[1].title} | 1 | 0 | 0 | 1.0 | abc, 2026-01-01 |" in after
    assert "Not run yet" not in after
    assert f"## {lane.runs[1].title}: " not in after
    own = (f"| {lane.runs[0].title} ", "- `test_hccl", "## 2")
    kept = [line for line in before.splitlines() if line.startswith(own)]
    assert len(kept) > 4
    assert not set(kept) - set(after.splitlines())
