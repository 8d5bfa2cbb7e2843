"""The cost of collectives, by sizes for which it can be computed by hand. Gaudi 2: 12.5e9 bytes/s of a port."""

import pytest

from openhpu_predict import load, network

GAUDI2 = load("gaudi2")
HOP, OUT = GAUDI2.hop_latency, GAUDI2.node_latency
GIGA = 1e9
NODE = range(8)
HALVES = (0, 1, 8, 9)  # two cards of each of two nodes
COLUMN = (0, 8, 16, 24)  # a card of each of four nodes


@pytest.mark.parametrize(
    "op, ranks, seconds",
    [
        ("all_reduce", (0,), 0.0),
        ("all_reduce", (0, 1), 2 / 2 / 37.5 + 2 * HOP),
        ("allreduce_", NODE, 2 * 7 / 8 / 262.5 + 2 * HOP),
        ("_allgather_base_", NODE, 7 / 8 / 262.5 + HOP),
        ("alltoall_base_", NODE, 1 / 8 / 37.5 + HOP),
        ("all_reduce", COLUMN, 2 * 3 / 4 / 37.5 + 6 * OUT),  # a ring over the ports out
        ("all_reduce", HALVES, 2 * (1 / 2 / 37.5 + HOP + 1 / 2 / 2 / 37.5 + OUT)),
        ("alltoall_", HALVES, 2 / 4 / 37.5 + OUT),  # what leaves the node takes longest
        ("send", (0, 1), 1 / 37.5 + HOP),
    ],
)
def test_seconds_of_a_gigabyte(op, ranks, seconds):
    assert network.seconds(op, GIGA, ranks, GAUDI2) == pytest.approx(seconds)
