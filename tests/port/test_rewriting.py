import textwrap

import pytest

from openhpu_port import PortError, from_cuda, port, to_device


def ported(text, target="cuda", table=None):
    """The translated text, and what is listed as (line, what)."""
    found = port(textwrap.dedent(text).encode(), table or to_device(target))
    return found.text.decode(), [(problem.line, problem.what) for problem in found.problems]


HPEX = "from habana_frameworks.torch.hpex."
CALLS = [  # import, call, to cuda
    (
        "kernels import FusedSDPA",
        "FusedSDPA.apply(q, k, v, m, 0.1, False, 2.0, 'fast')",
        "torch.nn.functional.scaled_dot_product_attention(q, k, v, m, 0.1, False, scale=2.0, enable_gqa=True)",
    ),
    (
        "kernels.FusedSDPA import FusedSDPA as F",
        "F.apply(q, k, value=v, softmax_mode='fp32', sinks=None)",
        "torch.nn.functional.scaled_dot_product_attention(q, k, value=v, enable_gqa=True)",
    ),
    (
        "normalization import FusedRMSNorm",
        "FusedRMSNorm.apply(x, w + 1, eps=e)",
        "torch.nn.functional.rms_norm(x, (w + 1).shape, w + 1, eps=e)",
    ),
    (
        "optimizers import FusedAdamW",
        "FusedAdamW(\n    p,\n    lr=1,  # high\n)",
        "torch.optim.AdamW(\n    p,\n    lr=1,  # high\n    eps=1e-6,\n    weight_decay=0.0,\n    fused=True,\n)",
    ),
]


@pytest.mark.parametrize(("module", "old", "new"), CALLS)
def test_fused_operators_become_pytorchs(module, old, new):
    text, listed = ported(f"import torch\n{HPEX}{module}\n\ny = {old}  # kept\n")
    assert text == f"import torch\n\ny = {new}  # kept\n"
    assert not listed


LISTED = [  # code, what is listed
    (f"{HPEX}optimizers import FusedLamb\nFusedLamb(p)", "habana_frameworks.torch.hpex.optimizers.FusedLamb"),
    (
        f"{HPEX}optimizers import FusedAdamW\nFusedAdamW(p, moments_dtype=d)",
        "habana_frameworks.torch.hpex.optimizers.FusedAdamW",
    ),
    (f"{HPEX}kernels import FusedSDPA\nmake(FusedSDPA)", "habana_frameworks.torch.hpex.kernels.FusedSDPA"),
    ("import habana_frameworks.torch.hpu as h\nh.wrap_in_hpu_graph(m)", "torch.hpu.wrap_in_hpu_graph"),
    ("import torch\nclip.clip_norm(p)", ".clip_norm"),
    ("import torch\ngetattr(torch, 'h' + 'pu')", "'h' + 'pu'"),
    ("import os\nm = __import__(f'habana_{x}')", "f'habana_{x}'"),
    ("import os\nx.to('h' 'pu')", "'h' 'pu'"),
    ("import os\nx = find('my_hpu.json')", "'my_hpu.json'"),
    ("import os\nx = os.environ['PT_HPU_LAZY_MODE']", "PT_HPU_LAZY_MODE"),
    ("import torch\ny = torch.hpu.metrics.metric_global('x')", "torch.hpu.metrics.metric_global"),
    ("import torch\ny = torch.hpu.unheard", "torch.hpu.unheard"),
    ("import torch\ny = torch.ops.hpu.rms_norm(x, w, 1e-5)", "torch.ops.hpu.rms_norm"),
    ("from lightning_habana import HPUDDPStrategy\ns = HPUDDPStrategy(x=1)", "lightning_habana.HPUDDPStrategy"),
]


@pytest.mark.parametrize(("code", "what"), LISTED)
def test_what_stays_is_listed_and_its_import_stays(code, what):
    text, listed = ported(code + "\n")
    assert text == code + "\n"
    assert listed == [(2, what)]


CHANGED = [  # code, cuda, cpu
    ("x = torch.ones(2, device='hpu:1')", "x = torch.ones(2, device='cuda:1')", "x = torch.ones(2, device='cpu')"),
    ('d = torch.device(f"hpu:{i}")', 'd = torch.device(f"cuda:{i}")', 'd = torch.device("cpu")'),
    ("p(x.hpu(0).is_hpu, 'on hpu now')", "p(x.cuda(0).is_cuda, 'on hpu now')", "p(x.cpu().is_cpu, 'on hpu now')"),
    ("m = torch.hpu.max_memory_allocated()", "m = torch.cuda.max_memory_allocated()", "m = 0"),
    (
        "t = Trainer(accelerator='hpu', strategy='hpu_ddp')",
        "t = Trainer(accelerator='cuda', strategy='ddp')",
        "t = Trainer(accelerator='cpu', strategy='ddp')",
    ),
]


@pytest.mark.parametrize(("code", "cuda", "cpu"), CHANGED)
def test_strings_and_names_of_pytorch(code, cuda, cpu):
    for target, new in (("cuda", cuda), ("cpu", cpu)):
        assert ported(f"import torch\n{code}\n", target) == (f"import torch\n{new}\n", [])


def test_lines_go_and_comments_stay():
    text, listed = ported(
        """\
        import os
        import torch

        import habana_frameworks.torch as ht, numpy
        from lightning_habana import HPUAccelerator, SingleHPUStrategy
        os.environ.setdefault("PT_HPU_LAZY_MODE", "1")
        os.environ["HABANA_LOGS"] = x


        def f(x):
            # above
            ht.core.mark_step()
            if os.getenv("PT_HPU_LAZY_MODE", "0") == "1":
                ht.core.mark_step()
            # below
            return x


        t = Trainer(accelerator=HPUAccelerator(), strategy=SingleHPUStrategy(device="hpu"))
        model = ht.hpu.wrap_in_hpu_graph(model)
        """,
        "cpu",
    )
    assert text == (
        'import os\nimport torch\n\nimport numpy\n\n\ndef f(x):\n    # above\n    if "0" == "1":\n        pass\n'
        '    # below\n    return x\n\n\nt = Trainer(accelerator="cpu", strategy="auto")\n'
    )
    assert not listed


def test_a_cuda_script_becomes_gaudis():
    text, listed = ported(
        "import torch\nx = torch.ones(2, device='cuda:0').cuda()\ntorch.cuda.synchronize()\ntorch.cuda.cudart()\n",
        table=from_cuda(),
    )
    assert text == (
        "import torch\nx = torch.ones(2, device='hpu:0').hpu()\ntorch.hpu.synchronize()\ntorch.cuda.cudart()\n"
    )
    assert listed == [(4, "torch.cuda.cudart")]


@pytest.mark.parametrize(
    ("source", "error"),
    [
        (b"x = (\n", "is not Python"),
        (b"s = '\xe4'\n", "utf-?8"),
        (b"# coding: nothing\n", "nothing"),
    ],
)
def test_bad_input(source, error):
    with pytest.raises(PortError, match=f"(?i){error}"):
        port(source, to_device("cuda"))


def test_an_encoding_that_the_file_states_is_kept():
    source = "# coding: latin-1\ns = 'ä'; d = 'hpu'\r\n".encode("latin-1")
    assert port(source, to_device("cpu")).text == source.replace(b"hpu", b"cpu")
