"""Recipes that hold an inference graph's weights."""


def test_constant_sections_are_shared_by_recipes(script, tmp_path):
    code = f"""
import hashlib
from openhpu.interface import inference

folder = Path({str(tmp_path / "sections")!r})
reference = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).eval().requires_grad_(False)
model = copy.deepcopy(reference).to("hpu")
inference.mark_params_as_const(model)

def sections():
    return {{f.name: f.stat().st_mtime_ns for f in folder.iterdir()}}

def check(x):
    x = x.to("hpu")
    with torch.no_grad():
        graph, y = capture(lambda: model(x))
    for _ in range(2):
        graph.replay()
        torch.testing.assert_close(y.cpu(), reference(x.cpu()), rtol=1e-5, atol=1e-6)
    return graph

torch.hpu.enable_const_section_serialization(str(folder))
check(torch.randn(3, 8))
one = sections()
contents = {{hashlib.sha256(p.cpu().numpy().tobytes()).hexdigest() for p in model.parameters()}}
assert {{name.partition(".")[0] for name in one}} == contents, one
assert len(one) == 4, one
check(torch.randn(5, 8))
assert sections() == one  # shared
assert openhpu.counters()["ops_in_recipes"] > 0
"""
    script(code, OPENHPU_COMPILE="sync", PT_HPU_LAZY_MODE="0")
