"""Process groups end in any order, and others begin after them."""

from tests.distributed.ranks import free_port, run_job

# Of each rank: what it destroys, by name, in its order; "world" destroys all that are left.
ORDERS = """
import itertools, os

ORDERS = {
    "in order": ("abw", "abw"), "backwards": ("bacw", "bacw"), "all at once": ("w", "w"), "crossed": ("abw", "baw"),
    "one by one beside all at once": ("w", "bcaw"), "the store's rank first": ("w", "abcw"),
}
for name, orders in ORDERS.items():
    for work in ("none", "pending", "recorded", "graph"):
        if not dist.is_initialized():
            os.environ["MASTER_PORT"] = str(PORTS.pop())
            dist.init_process_group("hccl")
        groups = {"a": dist.new_group([0, 1]), "b": dist.new_group([0, 1]), "c": dist.new_group([0, 1], backend="gloo")}
        x, kept = torch.ones(4, device="hpu"), []
        for group in (None, groups["a"], groups["b"]):
            dist.all_reduce(x, group=group)
        if work == "pending":
            kept.append(dist.all_reduce(x, group=groups["a"], async_op=True))
        elif work == "recorded":
            dist.all_reduce(x, group=groups["a"])
            x += 1
        elif work == "graph":
            kept.append(torch.hpu.HPUGraph())
            with torch.hpu.graph(kept[0]):
                dist.all_reduce(x, group=groups["a"])
            kept[0].replay()
        for each in orders[rank]:
            dist.destroy_process_group(groups.get(each))
        expected = {"none": 8, "pending": 16, "recorded": 17}
        assert work == "graph" or x.tolist() == [expected[work]] * 4, (name, work, x.tolist())
print("all ended")
"""


def test_groups_end_in_any_order_and_others_begin():
    ports = [free_port() for _ in range(24)]
    printed = run_job(ORDERS, first=f"PORTS = {ports}\n")
    assert all("all ended" in text for text in printed)
