"""`openhpu serve-sim` with vLLM and its plugin: equal output, the real engine beside it, misses, and refusals."""

import json
import os
import shutil
import sys

import pytest

from commands import ROOT, child
from ecosystem.vllm import made
from ecosystem.vllm.served import LLAMA
from openhpu_predict.devices import DATA, LINKS

_S = 140.0  # for a run; the lane gives a test, which has two at most, 300 s
TINY = LLAMA | {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 512,
    "max_position_embeddings": 2048,
    "bos_token_id": 0,
    "eos_token_id": 1,
}
SMALL = ("--max-num-seqs=4", "--max-model-len=512", "--max-num-batched-tokens=512")
TRAFFIC = ("--num-prompts=12", "--random-input-len=100", "--random-output-len=8", "--request-rate=50")


@pytest.fixture
def model(tmp_path):
    """A folder with a config.json alone."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(TINY))
    return folder


def simulate(model, *options, code=0, **environment):
    """The answers, or what was said where it fails."""
    out = model.parent / "answers.json"
    command = [sys.executable, "-m", "openhpu", "serve-sim", "--device=gaudi2", f"--model={model}", f"--json={out}"]
    ended = child.run([*command, *options], seconds=_S, cwd=ROOT, env=os.environ | environment)
    assert ended.code == code, ended.tail
    return json.loads(out.read_text()) if code == 0 else ended.tail


def test_equal_input_gives_equal_output(model):
    """Whatever the hash seed and the time of day."""
    files = []
    for seed in ("1", "2"):
        steps = model.parent / f"steps{seed}"
        simulate(model, *TRAFFIC, *SMALL, f"--steps={steps}", PYTHONHASHSEED=seed)
        files.append((steps.read_bytes(), (model.parent / "answers.json").read_bytes()))
    assert files[0] == files[1]
    assert len(files[0][0].splitlines()) > 20


def test_real_engine_beside_it(model):
    """The same steps, buckets, preemptions and times, request by request, as with real tiny weights."""
    found = {}
    prices = str(model.parent / "simulated.json")
    for kind in ("simulated", "real"):
        out = model.parent / f"{kind}.json"
        command = [sys.executable, "-m", "ecosystem.vllm.beside", kind, str(model), str(out), prices]
        child.run(command, seconds=_S, cwd=ROOT, env=os.environ | {"PYTHONHASHSEED": "0"}).checked(kind)
        found[kind] = json.loads(out.read_text())
    simulated, real = found["simulated"], found["real"]
    assert real["ran"] > 100
    assert sum(one["preemptions"] for one in simulated["requests"]) > 0
    assert simulated["steps"] == real["steps"]
    assert simulated["requests"] == real["requests"]
    assert simulated["end"] == real["end"]


def test_warm_up_makes_what_serving_needs(model):
    found = simulate(model, *TRAFFIC, *SMALL)
    assert found["misses"] == []
    assert found["warmup"]["operators"] > 100
    assert found["asynchronous_scheduling"] and found["mode"] == "torch.compile"
    assert found["buckets"]["unused"]
    assert found["prompt"]["calls"] == found["requests"] == 12
    assert found["ttft"]["median"] > 0 < found["tpot"]["median"]


def test_without_warm_up_each_new_graph_costs_time(model):
    found = simulate(model, *TRAFFIC, *SMALL, VLLM_SKIP_WARMUP="true")
    assert found["misses"]
    assert all(one["seconds_least"] < one["seconds"] < one["seconds_most"] for one in found["misses"])
    later = [one for one in found["misses"] if one["call"] == "forward" and one["bucket"][0] == "decode"]
    assert any("block" in one["new"] for one in later)
    assert found["ttft"]["median"] > sum(one["seconds"] for one in found["misses"]) / 12 / 4


def test_lazy_mode_has_captured_graphs(model):
    found = simulate(model, *TRAFFIC, *SMALL, PT_HPU_LAZY_MODE="1")
    assert found["mode"] == "HPU graphs"
    assert found["misses"] == []
    peaks = [row["peak"] for row in found["memory"]["buckets"]]
    assert peaks[-1] > peaks[0]  # each captured graph keeps its memory


def test_prefixes_hit(model):
    found = simulate(model, *TRAFFIC, *SMALL, "--random-input-len=300", "--random-prefix-len=256")
    assert found["prefix_hits"]["share"] > 0.5
    assert simulate(model, *TRAFFIC, *SMALL)["prefix_hits"]["share"] == 0


def test_tensor_parallelism_divides_weights_and_cache_and_communicates(model):
    one, two = (simulate(model, *TRAFFIC, *SMALL, f"--tensor-parallel-size={cards}") for cards in (1, 2))
    assert (one["cards"], two["cards"]) == (1, 2)
    assert two["requests"] == 12
    assert two["memory"]["weights"] < one["memory"]["weights"] * 0.6
    assert two["memory"]["cache_blocks"] > one["memory"]["cache_blocks"] * 1.9
    assert two["decode"]["engines"]["network"] > 0
    assert "network" not in one["decode"]["engines"]


def test_eight_cards_are_a_node_and_sixteen_are_two(model):
    """Two nodes have the network of the device file between them, which is slower than the links within a node."""
    wide = TINY | {"num_attention_heads": 16, "num_key_value_heads": 16, "hidden_size": 1024}
    (model / "config.json").write_text(json.dumps(wide))
    found = {
        cards: simulate(model, *TRAFFIC, *SMALL, f"--tensor-parallel-size={cards}", VLLM_SKIP_WARMUP="true")
        for cards in (8, 16)
    }
    assert [one["cards"] for one in found.values()] == [8, 16]
    assert found[16]["memory"]["weights"] < found[8]["memory"]["weights"]
    spent = {cards: one["decode"]["engines"]["network"] * one["decode"]["seconds"] for cards, one in found.items()}
    assert 0 < spent[8] < spent[16]


def test_plan_that_nothing_meets_on_a_device_without_links(model):
    lines = (DATA / "gaudi2.toml").read_text().splitlines()
    device = model.parent / "alone.toml"
    device.write_text("\n".join(line for line in lines if line.partition(" =")[0] not in LINKS))
    found = simulate(
        model,
        *TRAFFIC,
        "--max-model-len=512",
        f"--device={device}",
        "--plan=ttft=0.001ms,tpot=100ms",
        "--plan-cards=1,2",
        "--plan-max-num-seqs=4",
        "--plan-buckets=exp",
    )
    best, other = found["rows"]
    assert not found["met"]
    assert (best["cards"], best["meets"], best["share"]) == (1, "no", 0)
    assert best["bound"].startswith("first token; 12 requests miss it")
    assert (other["cards"], other["runs"]) == (2, False)
    assert "alone has no links" in other["bound"]


def test_plan_ranks_candidates_and_says_why_one_does_not_run(model):
    found = simulate(
        model,
        *TRAFFIC,
        "--max-model-len=512",
        "--plan=ttft=500ms,tpot=100ms",
        "--plan-cards=1,3",
        "--plan-max-num-seqs=2,8",
        "--plan-buckets=exp",
    )
    rows = found["rows"]
    assert [(row["cards"], row["runs"]) for row in rows] == [(1, True), (1, True), (3, False), (3, False)]
    assert found["met"] and rows[0]["meets"] == "yes"
    assert rows[0]["goodput"] >= rows[1]["goodput"] > 0
    assert "heads" in rows[-1]["bound"]


def test_list_of_buckets_is_what_the_plugin_reads(model):
    path = model.parent / "buckets.txt"
    whole = simulate(model, *TRAFFIC, *SMALL, f"--bucket-list={path}")
    few = simulate(model, *TRAFFIC, *SMALL, VLLM_BUCKETING_FROM_FILE=str(path))
    assert few["buckets"]["warmed"] < whole["buckets"]["warmed"] / 2
    assert few["misses"] == []
    assert few["buckets"]["unused"] == []


def test_guards_of_a_run_with_small_weights(model):
    """Without a warm-up the first decode is new."""
    one = "--num-prompts=1", "--random-input-len=100", "--random-output-len=3"
    found = simulate(model, *one, *SMALL, "--guards", "--compile-ms-per-op=1e-6", VLLM_SKIP_WARMUP="true")
    guards = found["guards"]
    assert (guards["warm_up_graphs"], guards["steps"]) == (0, found["steps"])
    failed = [row for row in guards["new"] if "a guard failed" in row["guard"]]
    assert "decode" in {row["bucket"][0] for row in failed}
    assert all(row["requests"] == ["0"] and ".py:" in row["line"] for row in failed)


def test_script_that_makes_an_llm(model):
    script = model.parent / "script.py"
    script.write_text(
        "import sys\nfrom vllm import LLM, SamplingParams\n"
        "llm = LLM(sys.argv[1], skip_tokenizer_init=True, max_model_len=512, max_num_seqs=2, enforce_eager=True)\n"
        "prompts = [{'prompt_token_ids': [7] * 50}] * 3\n"
        "found = llm.generate(prompts, SamplingParams(max_tokens=4, ignore_eos=True, detokenize=False))\n"
        "print('made', [len(one.outputs[0].token_ids) for one in found])\n"
    )
    out = model.parent / "answers.json"
    command = [sys.executable, "-m", "openhpu", "serve-sim", f"--json={out}", "--script", str(script), str(model)]
    ended = child.run(command, seconds=_S, cwd=ROOT, env=os.environ)
    assert "made [4, 4, 4]" in ended.output, ended.tail
    found = json.loads(out.read_text())
    assert (found["requests"], found["output_tokens"], found["mode"]) == (3, 12, "eager")


def seeing(folder):
    """The folder becomes that of a small Qwen 2.5 VL."""
    tower = {"depth": 2, "hidden_size": 64, "intermediate_size": 128, "num_heads": 2, "out_hidden_size": 256}
    config = TINY | {
        "architectures": ["Qwen2_5_VLForConditionalGeneration"],
        "model_type": "qwen2_5_vl",
        "rope_scaling": {"type": "mrope", "mrope_section": [8, 12, 12]},
        "vision_config": tower | {"fullatt_block_indexes": [1]},
    }
    (folder / "config.json").write_text(json.dumps(config | made.processor(folder)))


def test_model_that_reads_images_serves_texts(model):
    """The warm-up makes the graphs of a prompt's embeddings, too, which are a call of their own."""
    seeing(model)
    found = simulate(model, *TRAFFIC, *SMALL)
    assert found["misses"] == []
    assert (found["requests"], found["prompt"]["calls"]) == (12, 12)
    cold = simulate(model, *TRAFFIC, *SMALL, VLLM_SKIP_WARMUP="true")
    assert {one["bucket"][0] for one in cold["misses"] if one["call"] == "embeddings"} == {"prompt"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (['--limit-mm-per-prompt={"image": {"count": 1, "width": 224, "height": 224}}'], "--limit-mm-per-prompt out"),
        (["--language-model-only"], "on PyTorch's device meta"),
        (["--guards", "--num-prompts=1"], "this one reads images"),
    ],
)
def test_images_are_refused(model, options, words):
    seeing(model)
    said = simulate(model, *TRAFFIC, *SMALL, *options, code=2)
    assert words in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--tensor-parallel-size=3"], "heads"),
        (["--tensor-parallel-size=12"], "--tensor-parallel-size is 12; expected 1 to 8"),
        (["--pipeline-parallel-size=2"], "line 3680 of vllm_gaudi/v1/worker/hpu_model_runner.py"),
        (['--speculative-config={"method": "ngram", "num_speculative_tokens": 2}'], "--speculative-config"),
        (["--random-input-len=300", "--max-model-len=256"], "300 + 8 tokens, and --max-model-len is 256"),
    ],
)
def test_option_that_cannot_be_honoured(model, options, words):
    said = simulate(model, *TRAFFIC, *SMALL, *options, code=2)
    assert words in said
    assert "Traceback" not in said


def test_model_that_the_plugin_lacks(model):
    shutil.copy(model / "config.json", model / "before.json")
    (model / "config.json").write_text(json.dumps(TINY | {"architectures": ["NoSuchModel"], "model_type": "no_such"}))
    said = simulate(model, *TRAFFIC, *SMALL, code=2)
    assert "do not run" in said
    assert "no_such" in said
    assert "Traceback" not in said


def test_name_that_moved(model):
    """The error names the module, the name, and the versions."""
    code = (
        "from openhpu_predict.serving import hooks, engine\n"
        "from openhpu_predict.serving.settings import Settings\nfrom openhpu_predict.devices import load\n"
        "hooks.TABLE = (hooks.Hook(hooks._RUNNER, 'HPUModelRunner.gone', 'step', 'a reason'), *hooks.TABLE)\n"
        "engine.begin(load('gaudi2'), Settings.stated())\n"
    )
    ended = child.run([sys.executable, "-c", code], seconds=_S, cwd=ROOT, env=os.environ)
    assert ended.code == 1
    assert "has no HPUModelRunner.gone" in ended.tail
    assert "vllm-gaudi 0.28.0" in ended.tail
