"""Launchers other than torchrun."""

from tests.distributed.ranks import Job, open_mpi


def test_open_mpi():
    code = """
dist.all_reduce(x)
print("sum", x.tolist(), dist.get_world_size(), os.environ["HLS_MODULE_ID"], flush=True)
dist.destroy_process_group()
"""
    with Job(code, launcher=open_mpi) as job:
        codes, printed = job.ends()
    assert codes == [0, 0], printed
    for rank, text in enumerate(printed):
        assert f"sum [4.0, 4.0, 4.0, 4.0] 2 {rank}" in text
