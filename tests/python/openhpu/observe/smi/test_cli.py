"""hl-smi as programs read it. Each run is a process of its own, without torch."""

import csv
import importlib.metadata
import io
import re
import subprocess
import sys

import pytest

from openhpu.observe.smi import cli
from tests.processes import run_python


@pytest.fixture
def smi(tmp_path, environment, capfd):
    """Run hl-smi with arguments, on a machine of its own, with one module if not said otherwise; its output."""

    def run(*arguments, code=0, **variables):
        variables = {"OPENHPU_DEVICE_COUNT": "1", "OPENHPU_MEMORY_GB": "96"} | variables
        environment(OPENHPU_SMI_FOLDER=str(tmp_path), **variables)
        try:
            assert cli.main(list(arguments)) == code
        except SystemExit as ended:
            assert ended.code == code
        out, err = capfd.readouterr()
        return out if code == 0 else err

    return run


@pytest.mark.parametrize("generation", ["gaudi", "gaudi2", "gaudi3"])
@pytest.mark.parametrize("gigabytes", ["1", "96", "128", "1024"])
def test_every_line_of_the_table_has_79_columns(smi, generation, gigabytes):
    variables = {"OPENHPU_MEMORY_GB": gigabytes, "OPENHPU_GENERATION": generation, "OPENHPU_DEVICE_COUNT": "8"}
    lines = smi(**variables).splitlines()
    assert {len(line) for line in lines} == {79}
    assert sum(re.match(r"\|\s+\d  HL-", line) is not None for line in lines) == 8


def test_the_table_is_the_published_one(smi):
    lines = smi().splitlines()
    assert lines[8:11] == [
        "|   0  HL-225              N/A  | 0000:09:00.0     N/A |                   0  |",
        "| N/A   26C   N/A    87W / 600W |      0MiB / 98304MiB |     0%           N/A |",
        "|-------------------------------+----------------------+----------------------+",
    ]
    assert lines[-5:] == [
        "| Compute Processes:                                               AIP Memory |",
        "|  AIP       PID   Type   Process name                             Usage      |",
        "|=============================================================================|",
        "|   0        N/A   N/A    N/A                                      N/A        |",
        "+=============================================================================+",
    ]


# The readers: what each does with the output is taken from the format that it expects.


def test_readers_of_the_version(smi):
    line = smi(ENABLE_CONSOLE="true").split("\n")[2]
    assert line.replace(" ", "").split(":")[1][:-1].split("-")[0] == "1.24.1"
    output = smi("-v")
    assert re.search(r"hl-([\d.]+)", output).group(1).startswith("1.24.1")
    assert re.search(r"fw-([\d.]+)", output).group(1)
    assert output.startswith("Habanalabs hl-smi/hlml version hl-")


def test_readers_that_count_lines(smi):
    assert smi("-Q", "module_id", "-f", "csv,noheader", OPENHPU_DEVICE_COUNT="4") == "0\n1\n2\n3\n"
    assert smi("-Q", "index,module_id", "-f", "csv", HABANA_VISIBLE_MODULES="5,2") == "index, module_id\n0, 2\n1, 5\n"


@pytest.mark.parametrize("variables", [{}, {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}, {"HLS_MODULE_ID": "6"}])
def test_a_machine_has_the_modules_of_a_node_whoever_asks(smi, variables):
    variables = {"OPENHPU_DEVICE_COUNT": "", **variables}
    numbers = [str(number) for number in range(8)]
    assert re.findall(r"^\|\s+(\d)  HL-225", smi(**variables), re.MULTILINE) == numbers
    assert re.findall(r"^\|\s+(\d)\s+N/A +N/A +N/A +N/A", smi(**variables), re.MULTILINE) == numbers
    assert re.findall(r"Module ID\s+: (\d)$", smi("-L", **variables), re.MULTILINE) == numbers
    assert smi("-Q", "index,module_id", "-f", "csv,noheader", **variables).split("\n")[:-1] == [
        f"{number}, {number}" for number in numbers
    ]
    assert re.findall(r"^(\d) +all", smi("topo", "-c", **variables), re.MULTILINE) == numbers


# Every field that published documentation names.
FIELDS = (
    "timestamp",
    "name",
    "bus_id",
    "driver_version",
    "temperature.aip",
    "module_id",
    "utilization.aip",
    "memory.total",
    "memory.free",
    "memory.used",
    "index",
    "serial",
    "uuid",
    "power.draw",
    "power.max",
    "ecc.errors.uncorrected.aggregate.total",
    "ecc.errors.uncorrected.volatile.total",
    "ecc.errors.corrected.aggregate.total",
    "ecc.errors.corrected.volatile.total",
    "ecc.errors.dram.aggregate.total",
    "ecc.errors.dram.volatile.total",
    "ecc.errors.dram-corrected.aggregate.total",
    "ecc.mode.current",
    "ecc.mode.pending",
    "stats.violation.power",
    "stats.violation.thermal",
)


def test_every_field_is_a_cell_without_a_comma(smi):
    (head, *rows) = csv.reader(io.StringIO(smi("-Q", ",".join(FIELDS), "-f", "csv", OPENHPU_DEVICE_COUNT="3")))
    assert [name.strip().partition(" [")[0] for name in head] == list(FIELDS)
    assert [len(row) for row in rows] == [len(FIELDS)] * 3
    assert all(cell.strip() for row in rows for cell in row)
    assert len({row[FIELDS.index("uuid")] for row in rows}) == 3


def test_a_reader_that_writes_options_with_an_equals_sign(smi):
    assert smi("--query-aip=memory.used,utilization.aip", "--format=csv,noheader,nounits") == "0, 0\n"
    assert smi("-Q", "memory.used,index", "-f", "csv").splitlines()[0] == "memory.used [MiB], index"


def test_sections_and_lists(smi):
    assert "Power Draw" in smi("-q", "-d", "POWER")
    assert "Power Draw" not in smi("-q", "-d", "MEMORY")
    everything = smi("-q")
    assert "software device" in everything
    assert everything.count("constant") >= 3
    assert smi("-L", OPENHPU_DEVICE_COUNT="2").count("AIP (accel") == 2
    assert "no network ports" in smi("-n", "link", "-i", "0000:09:00.0")
    assert "Rows Replaced" in smi("--query-row-replacement")
    assert "CPU Affinity" in smi("topo", "-c")
    assert "fw-" in smi("--fw-versions")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("-Q", "no.such"), 2, "field 'no.such' is not known; there are: timestamp"),
        (("-Q", "index", "-f", "xml"), 2, "expected csv[,noheader][,nounits]"),
        (("-q", "-d", "SOUND"), 2, "section 'SOUND' is not known"),
        (("-i", "0000:ff:00.0"), 2, "there are: 0000:09:00.0"),
        (("-r", "-i", "0000:09:00.0"), 1, "nothing to reset"),
        (("-p", "500"), 1, "no power limit"),
        (("-l", "soon"), 2, "expected a number above 0 and below 10,000,000, got 'soon'"),
        (("-lms", "nan"), 2, "expected a number above 0 and below 10,000,000, got 'nan'"),
    ],
)
def test_what_cannot_be_done(smi, arguments, code, text):
    assert text in smi(*arguments, code=code)


def test_a_loop_until_its_reader_goes(tmp_path, environment_of_smi):
    process = subprocess.Popen(
        [sys.executable, "-m", "openhpu.observe.smi", "-Q", "timestamp,power.draw", "-f", "csv,noheader", "-lms", "1"],
        env=environment_of_smi,
        stdout=subprocess.PIPE,
        text=True,
    )
    lines = [process.stdout.readline() for _ in range(3)]
    process.stdout.close()
    assert process.wait(30) == 0
    assert all(line.endswith(" W\n") for line in lines)


@pytest.mark.parametrize(("name", "arguments"), [("hl-smi", ["-v"]), ("openhpu", ["env", "--set"])])
def test_the_commands_are_installed(name, arguments, environment, capfd):
    (command,) = importlib.metadata.entry_points(group="console_scripts", name=name)
    assert command.load()(arguments) == 0
    assert capfd.readouterr().out


def test_it_needs_no_torch(tmp_path, environment_of_smi):
    code = "import sys; from openhpu.observe.smi import cli; cli.main(['-L']); sys.exit('torch' in sys.modules)"
    run_python(["-c", code], tmp_path, environment_of_smi)
