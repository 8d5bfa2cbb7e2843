"""Bags of embeddings, sparse steps and permutations of features, against PyTorch's own forms and loops."""

import pytest
import torch

from tests.hpu.support import close

ops = torch.ops.hpu


def test_sums_of_bags(native, everywhere):
    table, indices, offsets = torch.randn(9, 3), torch.tensor([1, 4, 4, 8, 0, 2]), torch.tensor([0, 2, 2, 5, 6])
    exact = torch.nn.functional.embedding_bag(indices, table.double(), offsets, mode="sum", include_last_offset=True)

    def work(out, table, indices, offsets, valid):
        into = ops.embedding_bag_sum_bwd_out(out.clone(), table, indices, offsets, valid, 0)
        return ops.embedding_bag_sum(table, indices, offsets, valid, 0), into

    y, into = everywhere(work, torch.ones(6, 3), table, indices, offsets, torch.tensor([6, 4]))
    close([y, into], [exact, torch.cat([exact, torch.ones(2, 3)])])
    y, _ = native(work, torch.ones(6, 3), table, indices, offsets, torch.tensor([5, 4]))
    close(y, torch.cat([exact[:3], torch.zeros(1, 3)]))  # the only index of the last does not count


@pytest.mark.parametrize("kind", ["sgd", "nesterov", "adagrad"])
def test_sparse_steps_are_those_of_dense_optimizers(native, kind):
    rows = torch.tensor([4, 1, 7, 0])  # the last does not count
    weights, moments, grads = torch.randn(9, 3), torch.rand(9, 3), torch.randn(4, 3)
    parameter = torch.nn.Parameter(weights.double()[rows[:3]])
    parameter.grad = grads[:3].double()
    if kind == "adagrad":
        optimizer = torch.optim.Adagrad([parameter], lr=0.1)
        name = "sum"
        operator = ops.habanaOptimizerSparseAdagrad
        more = ()
    else:
        optimizer = torch.optim.SGD([parameter], 0.1, 0.9, nesterov=kind == "nesterov")
        name = "momentum_buffer"
        operator = ops.habanaOptimizerSparseSgd
        more = (0.9, kind == "nesterov")
    optimizer.state[parameter][name] = moments.double()[rows[:3]]
    optimizer.step()
    expected, expected_moments = weights.double(), moments.double()
    expected[rows[:3]] = parameter.detach()
    expected_moments[rows[:3]] = optimizer.state[parameter][name]
    result = native(operator, grads, weights, moments, rows, torch.tensor([0.1]), torch.tensor([3]), *more)
    close([*result], [expected, expected_moments])


@pytest.mark.parametrize("weighted", [True, False])
def test_features_are_permuted(everywhere, weighted):
    lengths, order = torch.tensor([[2, 0], [1, 3], [0, 1]]), torch.tensor([2, 0, 1])
    indices = torch.arange(7) * 10
    weights = torch.rand(7)
    parts = iter(indices.split(lengths.flatten().tolist()))
    segments = [[next(parts) for _ in range(2)] for _ in range(3)]
    expected = torch.cat([s for feature in order for s in segments[feature]])
    name, more = ("", [weights]) if weighted else ("_without_weights", [])
    operator = getattr(ops, "habana_permute_2D_sparse_data" + name)
    new, permuted, *rest = everywhere(operator, order, lengths, indices, *more)
    assert torch.equal(new, lengths[order])
    assert torch.equal(permuted, expected)
    if weighted:
        assert torch.equal(rest[0], weights[expected // 10])


def test_segments_are_permuted_and_expanded(native):
    lengths, order = torch.tensor([2, 3, 1]), torch.tensor([1, 2, 0])
    new, permuted = native(
        ops.habana_permute_1D_sparse_data_without_weights, order, lengths, torch.tensor([10, 11, 20, 21, 22, 30])
    )
    assert new.tolist() == [3, 1, 2]
    assert permuted.tolist() == [20, 21, 22, 30, 10, 11]
    weights = permuted / 10
    again, _, moved = native(ops.habana_permute_1D_sparse_data, new.argsort(), lengths, permuted, weights)
    assert again.tolist() == lengths[new.argsort()].tolist()
    assert (
        moved.tolist()
        == native(ops.habana_permute_1D_sparse_data, new.argsort(), lengths, permuted, weights)[1].div(10).tolist()
    )
    ends = torch.tensor([0, 2, 5, 6]), torch.tensor([0, 3, 4, 6])
    source = native(ops.habana_expand_into_jagged_permute, order, *ends, 6)
    assert source.tolist() == [2, 3, 4, 5, 0, 1]


def test_bad_indices_become_zero_and_are_counted(native):
    given = [torch.tensor(x) for x in ([1, 9, -1, 3, 2], [0, 2, 3, 5, 9], [0], [5, 3])]
    indices, offsets, warning = native(ops.habana_bounds_check_indices, *given, 1, None)
    assert indices.tolist() == [1, 0, 0, 0, 2]
    assert warning.tolist() == [3]
    assert offsets.tolist() == [0, 2, 3, 5, 5]


def test_columns_of_features(native):
    x = torch.arange(12.0).reshape(2, 6)
    y = native(ops.habana_split_permute_cat, x, torch.tensor([2, 0, 1]), 2, 3, 2)
    assert y.tolist() == [[4.0, 5.0, 0.0, 1.0, 2.0, 3.0], [10.0, 11.0, 6.0, 7.0, 8.0, 9.0]]
