"""Random operators draw other numbers than the CPU: reproducibility and distribution are compared instead."""

import math
from collections.abc import Callable
from typing import Any

import torch
from scipy import stats

from tests.conformance.compare import Mismatch
from tests.conformance.transfer import tensors_of

# The 64 draws of a program are made from fixed seeds: a result is the same in every run, and 3.2 is p < 1e-8.
DRAWS = 64
LIMIT = 3.2
ENOUGH = 16

Draw = Callable[[str, int], Any]


def _numbers(outcome: Any) -> torch.Tensor:
    """All results of one draw as one vector of finite doubles."""
    if outcome.error is not None:
        raise Mismatch(f"a repetition raises {outcome.described()}")
    parts = []
    for t in tensors_of(outcome.value):
        host = t.detach().cpu()
        if host.layout is not torch.strided:
            host = host.to_dense()
        host = host.resolve_conj().resolve_neg()
        if host.is_complex():
            host = torch.view_as_real(host.to(torch.complex128))
        parts.append(host.to(torch.float64).flatten())
    return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.float64)


def check(draw: Draw, *, few: bool) -> None:
    """Same seed, same numbers; other seed, other numbers where the CPU's differ; the same distribution."""
    first, again = _numbers(draw("hpu", 11)), _numbers(draw("hpu", 11))
    if not torch.equal(first.nan_to_num(), again.nan_to_num()):
        raise Mismatch("random: two runs from one seed differ")
    cpu, other = _numbers(draw("cpu", 11)), _numbers(draw("cpu", 12))
    varies = cpu.numel() >= ENOUGH and not torch.equal(cpu.nan_to_num(), other.nan_to_num())
    # A draw of few discrete values may repeat; of eight seeds one must differ.
    if varies and all(torch.equal(first.nan_to_num(), _numbers(draw("hpu", s)).nan_to_num()) for s in range(12, 20)):
        raise Mismatch("random: eight other seeds give the same numbers")
    if few or not first.numel():
        return
    summaries: dict[str, list[list[float]]] = {"cpu": [], "hpu": []}
    for device, rows in summaries.items():
        for seed in range(100, 100 + DRAWS):
            x = _numbers(draw(device, seed))
            x = x[x.isfinite()]
            if not x.numel():
                return
            rows.append([x.mean().item(), x.std(unbiased=False).item(), x.min().item(), x.max().item(), x[0].item()])
    for i, name in enumerate(("mean", "standard deviation", "minimum", "maximum", "first element")):
        a, b = (torch.tensor([row[i] for row in summaries[d]], dtype=torch.float64) for d in ("cpu", "hpu"))
        # Equal up to rounding counts as equal: a constant that differs in the last bit is no other distribution.
        scale = max(a.abs().max().item(), b.abs().max().item(), 1e-12)
        step = scale * 1e-3
        # Scaled so that it is about 1.36 at p = 0.05 and 2.7 at p = 1e-6.
        gap = stats.ks_2samp((a / step).round().numpy(), (b / step).round().numpy(), method="asymp").statistic
        statistic = gap * math.sqrt(DRAWS / 2)
        if statistic > LIMIT and (a.mean() - b.mean()).abs() > step:
            raise Mismatch(
                f"random: the {name} over {DRAWS} seeds is distributed otherwise than on the cpu "
                f"(KS {statistic:.2f}, {a.mean().item():.4g} on the cpu, {b.mean().item():.4g} on hpu)"
            )
