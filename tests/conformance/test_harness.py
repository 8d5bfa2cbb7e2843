"""The suite itself: a wrong result, a crash, a stale skip and a wrong choice are reported, never passed over."""

import itertools
import os
import sys
import time

import pytest
import torch

from commands import ROOT, budget, child
from tests.conformance import batches, compiled, execute, floors, pool, results, run
from tests.conformance.compare import Demand, Mismatch, Tolerance, aliasing, compare
from tests.conformance.database import Case
from tests.conformance.transfer import Transfer

CASES = ["op_forward:sin:float32", "op_forward:cos:float32"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Locks and results of the commands, apart from those of another run in this checkout."""
    monkeypatch.setattr(budget, "LOCKS", tmp_path)
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    return tmp_path


def test_a_wrong_result_fails_its_case_and_the_command(folder):
    """The plant is in sin: of the three cases that the choice names, one fails."""
    command = [sys.executable, "-m", "tests.conformance.run", "--mode", "eager", "--part", "ci", "--jobs", "1"]
    command += ["-k", "op_forward:sin", "--family", "op_forward", "--plant", "wrong"]
    environment = {**os.environ, "COMMANDS_BUILD": str(folder)}
    ended = child.run(command, seconds=600, cwd=ROOT, split=True, env=environment)
    assert ended.code == 1, ended.errors
    assert "FAILED op_forward:sin:float32\n    sample 0: result: values" in ended.output
    passed, rest = ended.output.splitlines()[-1].split(" passed, ")
    assert int(passed) >= 2
    assert int(rest.split(" failed")[0]) >= 1
    assert "FAILED op_forward:sinh" not in ended.output
    assert ended.output.splitlines()[-2] == f"op_forward: {ended.output.splitlines()[-1]}"


def test_a_crash_is_a_failure_and_the_run_goes_on():
    found = {}
    pool.run_cases([[case] for case in CASES], "ci", 1, 1, lambda r: found.update({r["case"]: r}), plant="crash")
    assert "crash: SIGSEGV" in found[CASES[0]]["failures"][0]
    assert found[CASES[1]]["ok"]
    assert found[CASES[1]]["checked"] > 0


def test_a_hang_is_a_failure(monkeypatch):
    monkeypatch.setattr(pool, "_START_S", 0.0)
    worker = pool.Worker("ci", 1, None)
    begin = time.monotonic()
    (result,) = worker.run(CASES[:1], hang_s=0.01)  # the worker is still importing torch
    assert not result["ok"]
    assert "hangs" in result["failures"][0]
    assert time.monotonic() - begin < 10  # it is killed, not waited for


@pytest.mark.parametrize(
    ("mode", "family", "plant", "said"),
    [
        ("compile", "compile_forward", "wrong", "result: values"),
        ("compile", "compile_forward", "error", "an error on hpu alone: RuntimeError: planted"),
        ("lazy", "recipe", "error", "an error on hpu alone: RuntimeError: planted"),
    ],
)
def test_what_is_wrong_in_compiled_code_fails_its_case_and_the_command(mode, family, plant, said, capsys):
    options = ["--mode", mode, "--family", family, "-k", f"{family}:sin:float32", "--jobs", "1", "--plant", plant]
    assert run.main(options) == 1
    assert f"FAILED {family}:sin:float32\n    {said}" in capsys.readouterr().out


def test_what_ran_in_a_recipe_must_go_on_to():
    """Against the committed pages: `sin` is in recipes, `digamma` falls back to the CPU."""
    for family in floors.PAGES:
        new, known = (batches.result(f"{family}:{n}:float32", outside="a CPU fallback") for n in ("sin", "digamma"))
        assert [results.verdict(one, {}, strict=False) for one in (new, known)] == ["failed", "skipped"]
        assert "does not list it" in results.problem(new, {})[0]


def test_a_family_of_operators_below_its_floor_is_told(tmp_path):
    path = tmp_path / "floors.toml"
    path.write_text('[recipe]\nproducts = 60\n"elementwise, one operand" = 100\n')
    found = [batches.result(f"recipe:{name}:float32") for name in ("mm", "bmm", "sin", "dot", "nn.functional.relu")]
    assert floors.below(found[:4], path) == []
    found[0]["outside"] = found[1]["outside"] = "a CPU fallback"
    assert floors.below(found, path) == [
        "recipe: neural networks, other have no floor in floors.toml; 100 % run in recipes",
        "recipe: of products 33.3 % run in recipes, the floor is 60 %",
    ]


def test_shards_are_all_cases_once():
    options = ["--mode", "eager", "--family", "optimizer"]
    whole, *parts = (
        run.chosen(run.arguments(options + more)) for more in ([], *(["--shard", f"{k}/3"] for k in (1, 2, 3)))
    )
    assert sorted(itertools.chain.from_iterable(parts)) == sorted(whole)
    assert all(parts)
    for wrong in ("0/3", "4/3", "3", "a/b"):
        with pytest.raises(SystemExit):
            run.arguments(["--mode", "eager", "--shard", wrong])


def test_what_is_compiled_runs_as_a_recipe_and_the_rest_is_named():
    names = ["compile_forward:cos:float32", "compile_backward:cos:float32", "compile_forward:digamma:float32"]
    names += ["compile_forward:resize_:float32", "compile_backward:prod:float32"]
    found = {}
    made = batches.split(names)
    pool.run_cases(made, "ci", 1, 1, lambda r: found.update({r["case"]: r}), mode="compile")
    assert all(found[name]["ok"] for name in names)
    assert [found[name]["checked"] for name in names] == [1, 1, 0, 0, 0]
    assert found[names[1]]["recorded"] > found[names[0]]["recorded"] > 0
    assert found[names[2]]["outside"] == "a CPU fallback"
    assert found[names[3]]["outside"] == "torch.compile can't on the CPU either: Unsupported"
    assert found[names[4]]["outside"]


@pytest.fixture
def chosen():
    """The case of an operator, as a batch takes it, in this process."""
    batches.policy("off")
    yield compiled.choose(Case("compile_forward", "cos", "float32"))
    batches.policy("background")


def test_a_compiled_function_that_no_recipe_runs_fails(chosen, monkeypatch):
    monkeypatch.setattr(compiled, "policy", lambda name: batches.policy("off"))
    (result,) = batches.in_halves([chosen], compiled.through_recipes)
    assert not result["ok"]
    assert "not compiled" in result["failures"][0]


def test_of_a_batch_only_what_is_wrong_fails(chosen):
    """The third of four cases can't be compiled, the fourth gives a wrong value."""
    four = [chosen._replace(case=Case("compile_forward", name, "float32")) for name in "abcd"]
    sizes = []

    def run(batch):
        sizes.append(len(batch))
        if any(c.case.name == "c" for c in batch):
            return "no recipe"
        value, arguments = chosen.expected.value, chosen.expected.arguments
        ran = batches.Ran(value.to("hpu"), Transfer("hpu")(arguments), chosen.expected)
        return [ran._replace(value=ran.value + (c.case.name == "d")) for c in batch]

    found = batches.in_halves(four, run)
    assert sizes == [4, 2, 2, 1, 1]
    assert [r["ok"] for r in found] == [True, True, False, False]
    assert found[2]["failures"] == ["no recipe"]
    assert "values" in found[3]["failures"][0]


def test_a_skip_that_passes_is_a_failure_of_the_full_run():
    result = {"case": CASES[0], "ok": True, "failures": [], "count": 0}
    reasons = {CASES[0]: "because of the test"}
    assert results.verdict(result, reasons, strict=True) == "failed"
    assert "expects it to fail" in results.problem(result, reasons)[0]
    assert results.verdict(result, reasons, strict=False) == "skipped"
    assert results.verdict({**result, "ok": False}, reasons, strict=True) == "skipped"
    assert results.verdict(result, {}, strict=True) == "passed"


def test_copies_keep_strides_offsets_and_aliasing():
    base = torch.arange(24.0).reshape(4, 6)
    sample = (base[1:, ::2], [base.t(), torch.tensor([1 + 2j]).conj()], {"x": torch.ones(1).expand(3), "device": "cpu"})
    first, (second, conjugated), rest = Transfer("hpu")(sample)
    assert first.stride() == (6, 2)
    assert first.storage_offset() == 6
    assert aliasing([first], [second]) == [0]
    assert conjugated.is_conj()
    assert rest["x"].stride() == (0,)
    assert rest["device"] == "hpu"
    compare(sample, (first, [second, conjugated], rest), Demand(Tolerance(), placed=False))


@pytest.mark.parametrize(
    "actual",
    [
        torch.ones(2, 3, device="hpu") + 1,
        torch.ones(3, 2, device="hpu"),
        torch.ones(2, 3, device="hpu", dtype=torch.float64),
        torch.ones(3, 2, device="hpu").t(),
        torch.ones(2, 3),
        1.0,
        None,
    ],
    ids=["values", "shape", "dtype", "strides", "device", "number", "none"],
)
def test_each_difference_is_seen(actual):
    with pytest.raises((Mismatch, AssertionError)):
        compare(torch.ones(2, 3), actual, Demand(Tolerance()))


@pytest.mark.parametrize(
    ("dtype", "value", "argument", "ok"),
    [
        ("bfloat16", 4.0, 1.0, True),  # what float32 gives, and bfloat16 does not
        ("bfloat16", 3.0, 1.0, False),  # neither
        ("bfloat16", 4.0, 2.0, False),  # an argument was changed
        ("float32", 4.0, 1.0, False),
    ],
    ids=["precise", "wrong", "argument", "float32"],
)
def test_float32_is_a_reference_for_values_of_bfloat16_alone(dtype, value, argument, ok):
    kind = getattr(torch, dtype)
    given = torch.ones(3, dtype=kind)
    case = Case.parse(f"recipe:sin:{dtype}")
    program = lambda arguments, device: arguments * (4 if arguments.dtype is torch.float32 else 2)  # noqa: E731
    expected = execute.attempt(lambda a, d: a * 2, given, "cpu", case.seed)
    chosen = batches.Chosen(case, program, given, Tolerance(), True, 1, expected)
    ran = batches.Ran(torch.full((3,), value, dtype=kind), torch.full((3,), argument, dtype=kind), expected)
    found = batches.compared(chosen, ran, device="cpu")
    assert found["ok"] == ok
    assert found.get("reference") == ("float32" if ok else None)
