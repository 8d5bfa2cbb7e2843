"""Random numbers are a function of a seed: Philox4x32-10, the element's number as counter, one seed per operator."""

import copy
import math
import pickle
import struct
from functools import partial

import numpy as np
import pytest
import torch

from tests.hpu.support import capture

MASK = 0xFFFFFFFF


def philox(seed, element):
    """The first two words of Philox4x32-10, in plain Python from its definition."""
    counter, key = [element & MASK, element >> 32, 0, 0], [seed, 0]
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(b >> 32) ^ counter[1] ^ key[0], b & MASK, (a >> 32) ^ counter[3] ^ key[1], a & MASK]
        key = [(key[0] + 0x9E3779B9) & MASK, (key[1] + 0xBB67AE85) & MASK]
    return counter[0], counter[1]


def float32(x):
    """The nearest float32."""
    return struct.unpack("f", struct.pack("f", x))[0]


def test_philox_has_the_published_values():
    # Known answers of the Random123 library for a counter of zeros and a key of zeros.
    assert philox(0, 0) == (0x6627E8D5, 0xE169C58D)


def unit(word):
    """[0, 1) of one word, in float32."""
    return float32(float32(word & 0x7FFFFFFF) * 2.0**-31)


def seeded(seed, count):
    """Begins at a seed; of so many elements the words that an operator draws from then on."""
    torch.manual_seed(seed)
    key = int.from_bytes(np.random.RandomState(seed).bytes(4), "little")  # the first word of mt19937
    return [philox(key, i) for i in range(count)]


def box_muller(words):
    u1, u2 = (float32(1 - float32(float32(w & 0x7FFFFFFF) * float32(4.6566127342e-10))) for w in words)
    return math.sqrt(-2 * math.log(u1)) * math.cos(2 * math.pi * u2)


def permutation(words):
    """Fisher and Yates, upwards, with 64-bit words."""
    order = list(range(len(words)))
    for i, (a, b) in enumerate(words[:-1]):
        j = i + (b << 32 | a) % (len(order) - i)
        order[i], order[j] = order[j], order[i]
    return order


# Draws, and in plain Python their numbers from the words of each element: the same on every machine, or nearly.
DEFINED = {
    "rand": (
        lambda n: torch.rand(n, device="hpu"),
        lambda words: pytest.approx([min(unit(a), 1 - 2.0**-24) for a, _ in words], rel=1e-6, abs=1e-9),
    ),
    "randn": (
        lambda n: torch.randn(n, device="hpu"),
        lambda words: pytest.approx([*map(box_muller, words)], rel=2.0**-23),
    ),
    "rand double": (
        lambda n: torch.rand(n, device="hpu", dtype=torch.float64),
        lambda words: [((b << 32 | a) & (1 << 53) - 1) * 2.0**-53 for a, b in words],
    ),
    "rand bfloat16": (
        lambda n: torch.rand(n, device="hpu", dtype=torch.bfloat16),
        lambda words: [((a & 0x7FFFFFFF) >> 23) * 2.0**-8 for a, _ in words],
    ),
    "bernoulli_": (
        lambda n: torch.empty(n, device="hpu").bernoulli_(0.3),
        lambda words: [float(unit(a) < 0.3) for a, _ in words],
    ),
    "bernoulli_ with a tensor": (
        lambda n: torch.empty(n, device="hpu").bernoulli_(torch.arange(n, device="hpu") / n),
        lambda words: [float(unit(a) < float32(i / len(words))) for i, (a, _) in enumerate(words)],
    ),
    "dropout": (
        lambda n: torch.nn.functional.dropout(torch.ones(n, device="hpu"), 0.5),
        lambda words: [2.0 * (unit(a) > 0.5) for a, _ in words],
    ),
    "randperm": (lambda n: torch.randperm(n, device="hpu"), permutation),
    **{
        f"random_{given}": (
            lambda n, given=given: torch.empty(n, device="hpu", dtype=torch.int64).random_(*given),
            lambda words, low=low, size=size: [(b << 32 | a) % size + low for a, b in words],
        )
        for given, low, size in (
            ((), 0, 2**63),
            ((-7, 100), -7, 107),
            ((-(2**63), 2**62), -(2**63), 2**63 + 2**62),
            ((-(2**63), None), -(2**63), 2**64),
        )
    },
}


@pytest.mark.parametrize("seed", [0, 1, 1234])
@pytest.mark.parametrize("name", DEFINED)
def test_draws_are_philox(name, seed):
    draw, expected = DEFINED[name]
    words = seeded(seed, 600)
    assert draw(600).tolist() == expected(words)


def full(value, *sizes):
    return torch.full(sizes or (70, 70), value, device="hpu")


def filled(name, numbers, g=None):
    return getattr(full(0.0), name)(*numbers, generator=g)


FILLS = {
    "normal_": (1, 2),
    "uniform_": (-1, 3),
    "bernoulli_": [0.3],
    "exponential_": [2.0],
    "geometric_": [0.3],
    "cauchy_": (),
    "log_normal_": (),
}


# Every random operator, as a function that draws on the device, from a generator or from the device's own.
DRAWS = {
    "rand": lambda g=None: torch.rand(70, 70, device="hpu", generator=g),
    "rand double": lambda g=None: torch.rand(70, 70, device="hpu", dtype=torch.float64, generator=g),
    "rand bfloat16": lambda g=None: torch.rand(70, 70, device="hpu", dtype=torch.bfloat16, generator=g),
    "rand_like": lambda g=None: torch.rand_like(full(1.0), generator=g),
    "randn": lambda g=None: torch.randn(70, 70, device="hpu", generator=g),
    "randn bfloat16": lambda g=None: torch.randn(70, 70, device="hpu", dtype=torch.bfloat16, generator=g),
    "randn complex": lambda g=None: torch.randn(70, 70, device="hpu", dtype=torch.complex64, generator=g),
    "randint": lambda g=None: torch.randint(-5, 100, (70, 70), device="hpu", generator=g),
    "randperm": lambda g=None: torch.randperm(1000, device="hpu", generator=g),
    "trunc_normal_": lambda g=None: torch.nn.init.trunc_normal_(full(0.0), generator=g),
    "bernoulli": lambda g=None: torch.bernoulli(full(0.3), generator=g),
    "bernoulli p": lambda g=None: torch.bernoulli(full(1.0), 0.5, generator=g),
    "bernoulli_ of a tensor": lambda g=None: full(0.0).bernoulli_(full(0.5), generator=g),
    **{name: partial(filled, name, numbers) for name, numbers in FILLS.items()},
    "random_": lambda g=None: full(0).random_(generator=g),
    "random_ to": lambda g=None: full(0).random_(9, generator=g),
    "rrelu": lambda g=None: torch.ops.aten.rrelu_with_noise(full(-1.0), full(0.0), training=True, generator=g),
    "multinomial": lambda g=None: torch.multinomial(full(1.0, 30, 100), 5, generator=g),
    "multinomial with replacement": lambda g=None: torch.multinomial(full(1.0, 30, 100), 500, True, generator=g),
    "poisson": lambda g=None: torch.poisson(full(4.0), generator=g),
    "binomial": lambda g=None: torch.binomial(full(9.0), full(0.4), generator=g),
    "gamma": lambda g=None: torch._standard_gamma(full(2.0), generator=g),
    "dirichlet": lambda g=None: torch._sample_dirichlet(full(1.0), generator=g),
    "normal of a tensor": lambda g=None: torch.normal(full(0.0), 2.0, generator=g),
    "normal of tensors": lambda g=None: torch.normal(full(0.0), full(1.0), generator=g),
    "dropout": lambda: torch.nn.functional.dropout(full(1.0), 0.3),
    "alpha_dropout": lambda: torch.nn.functional.alpha_dropout(full(1.0), 0.3, training=True),
    "attention dropout": lambda: torch.nn.functional.scaled_dot_product_attention(
        *[full(1.0, 1, 2, 20, 8)] * 3, dropout_p=0.3
    ),
}
DRAWN = [name for name in DRAWS if "dropout" not in name]  # from a generator


@pytest.mark.parametrize("draw", [*DRAWS.values(), lambda: torch.rand(1_000_003, device="hpu")], ids=[*DRAWS, "large"])
def test_numbers_do_not_depend_on_the_number_of_threads(draw):
    results = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            torch.manual_seed(11)
            results.append(draw().cpu())
    finally:
        torch.set_num_threads(before)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


@pytest.mark.parametrize("fill", ["uniform_", "normal_", "exponential_", "bernoulli_", "random_", "cauchy_"])
def test_numbers_do_not_depend_on_strides(fill):
    results = []
    for x in (
        torch.empty(30, 40, device="hpu"),
        torch.empty(40, 30, device="hpu").t(),
        torch.empty(60, 80, device="hpu")[::2, ::2],
        torch.empty(1201, device="hpu")[1:].view(30, 40),
    ):
        torch.manual_seed(3)
        results.append(getattr(x, fill)().cpu())
    assert all(torch.equal(result, results[0]) for result in results)


# Values of the operands are looked at, or the operator is a CPU fallback.
LOOKING = {"multinomial", "multinomial with replacement", "normal of a tensor", "normal of tensors", "trunc_normal_"}
NOT_NATIVE = {"binomial", "gamma", "dirichlet", "cauchy_"}


@pytest.mark.parametrize("name", sorted(DRAWS.keys() - LOOKING - NOT_NATIVE))
def test_draws_do_not_wait_once_their_shapes_were_seen(name, gate, counted):
    DRAWS[name]()
    torch.manual_seed(4)
    expected = [DRAWS[name]().cpu() for _ in range(3)]
    torch.manual_seed(4)
    with gate, counted(ops_waited=0) as difference:
        drawn = [DRAWS[name]() for _ in range(3)]
        torch.manual_seed(5)  # the seeds were drawn at submission: this changes nothing
    assert difference["ops_issued"] >= 3
    assert all(torch.equal(a.cpu(), b) for a, b in zip(drawn, expected, strict=True))


def test_new_parameters_are_no_new_signature(gate):
    x, integers = torch.ones(10, device="hpu"), torch.empty(10, device="hpu", dtype=torch.int64)

    def draw(i):
        x.uniform_(-i, i)
        x.normal_(i, 1 / i)
        x.bernoulli_(1 / i)
        integers.random_(-i, i)
        torch.native_dropout(x, 1 / (i + 1), True)
        torch.nn.functional.rrelu(x, 0.1 / i, 0.2, training=True)

    draw(1)
    with gate:
        for i in range(2, 10):
            draw(i)


def test_filling_a_tensor_of_a_new_shape_does_not_wait(gate):
    torch.empty(1, device="hpu")
    with gate:
        tensors = [torch.empty(3, n, device="hpu").uniform_(1, 2) for n in range(91, 95)]
    assert all(x.min() >= 1 for x in tensors)


# The generator.


def test_manual_seed_gives_both_devices_the_same_state_and_drawing_on_one_leaves_the_other_alone():
    torch.manual_seed(123)
    host = torch.get_rng_state()
    assert torch.equal(host, torch.hpu.get_rng_state())
    assert torch.hpu.initial_seed() == 123
    torch.rand(5, device="hpu")
    assert torch.equal(torch.get_rng_state(), host)
    assert not torch.equal(torch.hpu.get_rng_state(), host)


COPIES = {
    "clone_state": torch.Generator.clone_state,
    "deepcopy": copy.deepcopy,
    "pickle": lambda g: pickle.loads(pickle.dumps(g)),
}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_a_generator_can_be_copied(copied):
    generator = torch.Generator(device="hpu").manual_seed(7)
    torch.rand(5, device="hpu", generator=generator)
    other = copied(generator)
    assert other.device == generator.device
    assert other.initial_seed() == 7
    assert torch.equal(*(torch.rand(5, device="hpu", generator=g) for g in (other, generator)))


def test_a_generator_of_the_device_is_refused_on_the_cpu():
    with pytest.raises(RuntimeError, match="generator"):
        torch.rand(5, generator=torch.Generator(device="hpu"))


@pytest.mark.parametrize("name", DRAWN)
def test_a_generator_of_the_cpu_will_do(name):
    """As on a Gaudi, where generators are the CPU's. Its state moves on, and the device's stays."""
    draw = DRAWS[name]
    untouched = torch.hpu.get_rng_state()
    generator = torch.Generator().manual_seed(3)
    first = draw(generator)
    middle = generator.get_state()
    second = draw(generator)
    state = generator.get_state()
    assert not torch.equal(first, second)
    generator.manual_seed(3)
    assert torch.equal(draw(generator), first)
    assert torch.equal(generator.get_state(), middle)
    generator.set_state(middle)
    assert torch.equal(draw(generator), second)
    assert torch.equal(generator.get_state(), state)
    assert torch.equal(torch.hpu.get_rng_state(), untouched)
    assert torch.equal(draw(torch.Generator(device="hpu").manual_seed(3)), first)  # whichever device it is of


def test_the_default_generator_of_the_cpu_can_be_given():
    drawn = []
    for _ in range(2):
        torch.manual_seed(4)
        drawn.append((torch.rand(5, device="hpu", generator=torch.default_generator).cpu(), torch.rand(5)))
    assert all(map(torch.equal, *drawn))


@pytest.mark.parametrize("device", ["cpu", "hpu"])
def test_a_graph_draws_from_a_generator_at_each_replay(device):
    generator, again = (torch.Generator(device).manual_seed(6) for _ in range(2))
    x, own = torch.zeros(7, device="hpu"), torch.hpu.get_rng_state()
    graph, y = capture(lambda: x.normal_(generator=generator) + torch.rand(7, device="hpu", generator=generator))
    for step in range(4):
        if step:
            graph.replay()
        expected = x.clone().normal_(generator=again) + torch.rand(7, device="hpu", generator=again)
        assert torch.equal(y, expected)
        assert torch.equal(generator.get_state(), again.get_state())
    assert torch.equal(torch.hpu.get_rng_state(), own)


def test_a_dry_run_puts_a_generator_of_the_cpu_back():
    generator, again = (torch.Generator().manual_seed(6) for _ in range(2))
    graph = torch.hpu.HPUGraph()
    x = torch.zeros(7, device="hpu")
    with torch.hpu.graph(graph, dry_run=True):
        x.normal_(generator=generator)
    assert torch.equal(generator.get_state(), again.get_state())
    graph.replay()
    assert torch.equal(x, torch.zeros(7, device="hpu").normal_(generator=again))


def test_an_operator_without_a_kernel_for_hpu_takes_a_generator_of_the_cpu():
    """Its kernel draws from it, in the order of the script."""
    with torch.library._scoped_library("openhpu_rng_tests", "FRAGMENT") as library:
        library.define("noisy(Tensor x, *, Generator? generator) -> Tensor")
        library.impl("noisy", lambda x, generator: x + torch.rand(x.shape, generator=generator), "CPU")
        noisy = torch.ops.openhpu_rng_tests.noisy
        generator, again = torch.Generator().manual_seed(6), torch.Generator().manual_seed(6)
        x = torch.zeros(5, device="hpu")
        for _ in range(3):
            assert torch.equal(noisy(x, generator=generator).cpu(), torch.rand(5, generator=again))
        with pytest.raises(RuntimeError, match=r"noisy draws random numbers.*torch.Generator\(\)"):
            noisy(x, generator=torch.Generator(device="hpu"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_rand_is_below_one_in_every_dtype(dtype):
    x = torch.rand(500_000, device="hpu", dtype=dtype).cpu()
    assert 0 <= x.min() <= x.max() < 1
