"""`openhpu serve-sim` without vLLM: wrong requests."""

import pytest

from openhpu_predict.serving import command


@pytest.fixture
def told(monkeypatch, capsys, tmp_path):
    """What the command says; `model` is a folder with a config.json."""
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    (tmp_path / "config.json").write_text("{}")

    def run(*arguments, model=True):
        given = ["--model", str(tmp_path)] if model else []
        code = command.main([*given, *arguments])
        return code, capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give either --trace or --num-prompts"),
        (["--trace", "a", "--num-prompts", "1"], "give either --trace or --num-prompts"),
        (["--trace", "/none.jsonl"], "/none.jsonl can't be read"),
        (["--num-prompts", "0"], "--num-prompts is 0"),
        (["--num-prompts", "1", "--device", "gaudi9"], "there is no device 'gaudi9'"),
        (["--num-prompts", "1", "--max-concurrency", "-1"], "--max-concurrency is -1"),
        (["--num-prompts", "1", "--host-step-ms", "-1"], "--host-step is -1"),
        (["--num-prompts", "1", "--json", "/none/a.json"], "there is no folder '/none'"),
        (["--trace", "a", "--timed-trace-chunk-hash-size", "0"], "above 0"),
        (["--num-prompts", "1", "--bucket-share", "0"], "--bucket-share is 0"),
        (["--num-prompts", "1", "--bucket-list", "/none/a"], "--bucket-list: there is no folder '/none'"),
        (["--num-prompts", "1", "--plan", "ttft=1"], "'ttft=1' is no limit"),
        (["--num-prompts", "1", "--plan", "ttft=1s", "--steps", "/tmp/s"], "--steps and --bucket-list"),
        (["--num-prompts", "1", "--plan", "ttft=1s", "--plan-jobs", "-1"], "--plan-jobs is -1"),
        (["--num-prompts", "1", "--plan", "ttft=1s", "--plan-cards", "x"], "--plan-cards is 'x'"),
        (["--script", "/none.py"], "there is no script '/none.py'"),
    ],
)
def test_wrong_request(told, arguments, words):
    code, said = told(*arguments)
    assert code == 2
    assert said.startswith("openhpu serve-sim: ")
    assert words in said


def test_model_is_missing(told):
    assert "--model is missing" in told("--num-prompts", "1", model=False)[1]


def test_model_without_a_configuration(told, tmp_path):
    (tmp_path / "config.json").unlink()
    code, said = told("--num-prompts", "1")
    assert code == 2
    assert "config.json" in said


def test_vllm_is_not_installed(told):
    code, said = told("--num-prompts", "1")
    assert code == 2
    assert "there is no module 'vllm'" in said
    assert "docs/serving.md" in said
