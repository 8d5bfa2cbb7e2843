"""README's table of speed is what RESULTS.md says."""

from benchmarks import readme_table, report

STEP = "MLP 1-2, batch 3"
RESULTS = {  # benchmark: how it is described, and its table: title, columns, rows
    "dispatch": (
        {"date": "2026-01-01", "commit": "abc"},
        "Small operators",
        ["operator", "hpu done us", "done / CPU"],
        [["add", "1.0", "1.25 (1.0 to 2)"], ["mm", "1.0", "0.5 (0.4 to 0.6)"]],
    ),
    "lazy": (
        {"date": "2026-01-02", "processor": "a processor"},
        f"{STEP}: 22 operators",
        ["peer", "done ms", "this / hpu, lazy"],
        [
            ["hpu, lazy", "1", "1 (1 to 1)"],
            ["hpu, eager", "1", "0.5 (0.4 to 0.6)"],
            ["CPU", "1", "3 (2 to 4)"],
            ["CPU, fused", "1", "0.75 (0.7 to 2)"],
            ["compile", "1", "2 (1 to 3)"],
        ],
    ),
    "compile": (
        {"date": "2026-01-03", "commit": "def"},
        f"training step, {STEP}",
        ["peer", "done us", "CPU, torch.compile / this"],
        [
            ["hpu, graph of the step", "1", "4 (3 to 5)"],
            ["hpu, torch.compile", "1", "1 (1 to 1)"],
            ["CPU, torch.compile", "1", "1 (1 to 1)"],
            ["the same, fused AdamW", "1", "1.25 (1 to 2)"],
        ],
    ),
}


def test_the_table_is_that_of_the_results():
    page, results = readme_table.README.read_text(), readme_table.RESULTS.read_text()
    assert readme_table.replaced(page, results) == page, "python -m benchmarks --readme"


def test_the_best_peer_counts_and_what_is_slower_is_shown(monkeypatch, tmp_path):
    monkeypatch.setattr(report, "RESULTS", tmp_path / "RESULTS.md")
    for name, (described, *table) in RESULTS.items():
        report.write_results(described, {name: [report.Table(*table)]}, RESULTS)
    results = report.RESULTS.read_text()
    assert readme_table.measured(results) == {
        "MLP 1-2": {
            "eager mode": (4.0, 1.5),
            "lazy mode": (2.0, 0.75),
            "`torch.compile`": (1.0, 0.375),  # in `lazy` the eager fused step takes 0.375 of torch.compile's time
            "HPU graph": (4.0, 1.5),
        }
    }
    lines = readme_table.text(results).splitlines()
    assert lines[2] == "| MLP 1-2 | 4.00 | 1.50 | 2.00 | 0.75 | 1.00 | 0.38 | 4.00 | 1.50 |"
    assert lines[-3].startswith("A single small operator takes 0.5 to 1.2 times as long")
    assert " ".join(lines[-2:]) == (
        "Measured on a processor: `lazy` 2026-01-02, commit not recorded; `compile` 2026-01-03, commit def; "
        "`dispatch` 2026-01-01, commit abc."
    )
