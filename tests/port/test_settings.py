import pytest

from openhpu_port import PortError, port_settings, to_device

ACCELERATE = """\
# of accelerate
distributed_type: MULTI_HPU   # all of them
mixed_precision: bf16
use_cpu: false
dynamo_config:
  dynamo_backend: HPU_BACKEND
"""
SETTINGS = [  # text, cuda, cpu
    (
        '{\n\t"use_habana": true,\n\t"device": "hpu:1",\n\t"max_steps": 4\n}\n',
        '{\n\t"device": "cuda:1",\n\t"max_steps": 4\n}\n',
        '{\n\t"device": "cpu",\n\t"max_steps": 4\n}\n',
    ),
    ('{"bf16": true, "use_habana": true, "use_lazy_mode": false}', '{"bf16": true}', '{"bf16": true}'),
    ('{"use_fused_adam": true, "use_torch_autocast": false}', "{}", "{}"),
    (
        '{"dist_backend": "hccl", "compile": {"backend": "hpu_backend"}, "enable_cuda_graph": true}',
        '{"dist_backend": "nccl", "compile": {"backend": "inductor"}, "enable_cuda_graph": true}',
        '{"dist_backend": "gloo", "compile": {"backend": "inductor"}, "enable_cuda_graph": false}',
    ),
    (
        "trainer:\n  accelerator: 'hpu'\n  strategy: hpu_ddp  # two\nuse_habana: true\n",
        "trainer:\n  accelerator: 'cuda'\n  strategy: ddp  # two\n\n",
        "trainer:\n  accelerator: 'cpu'\n  strategy: ddp  # two\n\n",
    ),
    (
        ACCELERATE,
        ACCELERATE.replace("MULTI_HPU", "MULTI_GPU").replace("HPU_BACKEND", "INDUCTOR"),
        ACCELERATE.replace("MULTI_HPU", "MULTI_CPU").replace("HPU_BACKEND", "INDUCTOR").replace("false", "true"),
    ),
    ("", "", ""),
]
LISTED = [
    ('{\n"use_torch_autocast": true}', (2, "use_torch_autocast: true")),
    ("a: 1\ngaudi_config_name: Habana/gpt2\n", (2, "gaudi_config_name: habana/gpt2")),
    ("a:\n- libhabana_x.so\n", (2, "libhabana_x.so")),
]


@pytest.mark.parametrize(("text", "cuda", "cpu"), SETTINGS)
def test_settings_keep_their_layout(text, cuda, cpu):
    for target, new in (("cuda", cuda), ("cpu", cpu)):
        found = port_settings(text.encode(), to_device(target))
        assert found.text.decode() == new
        assert not found.problems


@pytest.mark.parametrize(("text", "problem"), LISTED)
def test_what_stays_is_listed(text, problem):
    found = port_settings(text.encode(), to_device("xpu"))
    assert found.text.decode() == text
    assert [one[:2] for one in found.problems] == [problem]


@pytest.mark.parametrize("source", [b"{", b"a: [", b"\xe4: 1"])
def test_bad_input(source):
    with pytest.raises(PortError, match="expected JSON or YAML in UTF-8"):
        port_settings(source, to_device("cpu"))
