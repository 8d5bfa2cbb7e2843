"""RESULTS.md keeps what was not measured again."""

from benchmarks import report

AMD = {"date": "2026-11-26", "processor": "AMD EPYC", "instruction set": "AVX2"}
INTEL = {"date": "2026-11-27", "processor": "Intel Xeon", "instruction set": "AVX512"}


def test_a_benchmark_replaces_its_section_and_machines_only_that_of_its_processor(monkeypatch, tmp_path):
    monkeypatch.setattr(report, "RESULTS", tmp_path / "RESULTS.md")

    def write(described, name, value):
        table = report.Table("a step", ["mode", "ms"], [["lazy", value]])
        report.write_results(described, {name: [table]}, ["lazy", "machines", "import"])

    for described, value in ((AMD, 1), (INTEL, 2), (AMD, 3)):
        write(described, "machines", value)
        write(described, "lazy", value)
    write(INTEL, "import", 4)
    found = report.sections(report.RESULTS.read_text())
    names = ["lazy", "machines on AMD EPYC, AVX2", "machines on Intel Xeon, AVX512", "import"]
    assert list(found) == names
    assert [found[name].rsplit("| ", 1)[1] for name in names] == ["3  |", "3  |", "2  |", "4  |"]
