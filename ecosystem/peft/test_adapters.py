"""peft's adapters on hpu against the CPU: forward, training, merging."""

import peft
import pytest
import torch
import transformers
from torch.testing import assert_close

from ecosystem.both import assert_same, moved
from ecosystem.transformers.models import TEXT

CLOSE = {"rtol": 1e-4, "atol": 1e-5}
TARGETS = ["q_proj", "v_proj"]
TASK = {"task_type": "CAUSAL_LM"}
MERGED = {
    "lora": lambda: peft.LoraConfig(r=4, target_modules=TARGETS, **TASK),
    "rslora": lambda: peft.LoraConfig(r=4, target_modules=TARGETS, use_rslora=True, **TASK),
    "dora": lambda: peft.LoraConfig(r=4, target_modules=TARGETS, use_dora=True, **TASK),
    "lora, embeddings": lambda: peft.LoraConfig(r=4, target_modules=["embed_tokens", "q_proj"], **TASK),
    "lora, all linear": lambda: peft.LoraConfig(r=4, target_modules="all-linear", **TASK),
    "adalora": lambda: peft.AdaLoraConfig(r=4, init_r=6, target_r=4, total_step=20, target_modules=TARGETS, **TASK),
    "ia3": lambda: peft.IA3Config(
        target_modules=["k_proj", "v_proj", "down_proj"], feedforward_modules=["down_proj"], **TASK
    ),
    "loha": lambda: peft.LoHaConfig(r=4, target_modules=TARGETS, **TASK),
    "lokr": lambda: peft.LoKrConfig(r=4, target_modules=TARGETS, **TASK),
    "oft": lambda: peft.OFTConfig(oft_block_size=8, target_modules=TARGETS, **TASK),
    "boft": lambda: peft.BOFTConfig(boft_block_size=4, target_modules=TARGETS, **TASK),
    "vera": lambda: peft.VeraConfig(r=4, target_modules=TARGETS, **TASK),
    "fourierft": lambda: peft.FourierFTConfig(n_frequency=20, target_modules=TARGETS, **TASK),
    "hra": lambda: peft.HRAConfig(r=4, target_modules=TARGETS, **TASK),
    "bone": lambda: peft.MissConfig(r=4, target_modules=TARGETS, **TASK),
    "randlora": lambda: peft.RandLoraConfig(r=4, target_modules=TARGETS, **TASK),
    "layernorm": lambda: peft.LNTuningConfig(target_modules=["input_layernorm"], **TASK),
}
PROMPTS = {
    "prompt tuning": lambda: peft.PromptTuningConfig(num_virtual_tokens=4, **TASK),
    "prefix tuning": lambda: peft.PrefixTuningConfig(num_virtual_tokens=4, **TASK),
    "p-tuning": lambda: peft.PromptEncoderConfig(num_virtual_tokens=4, encoder_hidden_size=16, **TASK),
}
ALL = MERGED | PROMPTS


@pytest.fixture(autouse=True)
def quiet(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def base():
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**TEXT)).eval()


def adapted(name, device):
    """The base model with an adapter whose weights do something, made on the CPU and moved."""
    model = base()
    torch.manual_seed(1)
    model = peft.get_peft_model(model, ALL[name]())
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad:
                p.add_(torch.randn(p.shape) * 0.02)
    return model.to(device)


def ids(device):
    torch.manual_seed(2)
    return torch.randint(3, 99, (2, 10)).to(device)


def trained(name, device):
    model = adapted(name, device).eval()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    losses = []
    for number in range(4):
        loss = model(input_ids=ids(device), labels=ids(device)).loss
        loss.backward()
        optimizer.step()
        if name == "adalora":
            model.base_model.update_and_allocate(number)
        optimizer.zero_grad()
        losses.append(loss.detach().cpu())
    return torch.stack(losses), moved(peft.get_peft_model_state_dict(model), "cpu")


@pytest.mark.parametrize("name", ALL)
def test_training(name):
    losses, state = trained(name, "hpu")
    cpu_losses, cpu_state = trained(name, "cpu")
    assert_close(losses, cpu_losses, **CLOSE)
    assert_close(state, cpu_state, rtol=1e-3, atol=1e-4)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", MERGED)
def test_merging_and_disabling(name):
    def results(device):
        model = adapted(name, device).eval()
        with model.disable_adapter():
            plain = model(ids(device)).logits
        return plain, model(ids(device)).logits, model.merge_and_unload()(ids(device)).logits

    with torch.no_grad():
        plain, with_adapter, _ = assert_same(results, **CLOSE)
        assert_close(plain, base()(ids("cpu")).logits, **CLOSE)
    assert not torch.allclose(plain, with_adapter)


def test_several_adapters():
    """Added, set, weighted together and mixed within a batch."""
    results = {}
    with torch.no_grad():
        for device in ("cpu", "hpu"):
            model = adapted("lora", device).eval()
            torch.manual_seed(3)
            model.add_adapter("second", peft.LoraConfig(r=2, target_modules=TARGETS, init_lora_weights=False, **TASK))
            if device == "hpu":  # made where the model lies: other random numbers
                model.load_state_dict({key: value for key, value in results["state"].items()})
            results.setdefault("state", {key: value.clone() for key, value in model.state_dict().items()})
            model.add_weighted_adapter(["default", "second"], [0.7, 0.3], "both", combination_type="svd", svd_rank=3)
            found = []
            for name in ("default", "second", "both"):
                model.set_adapter(name)
                found.append(model(ids(device)).logits.cpu())
            found.append(model(ids(device), adapter_names=["second", "__base__"]).logits.cpu())
            results[device] = found
    assert_close(results["hpu"], results["cpu"], **CLOSE)
