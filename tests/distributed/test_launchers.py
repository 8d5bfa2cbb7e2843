"""Open MPI's variables."""

from tests.distributed.ranks import open_mpi, run_job


def test_open_mpi():
    code = """
dist.all_reduce(x)
print("sum", x.tolist(), dist.get_world_size(), os.environ["HLS_MODULE_ID"], flush=True)
dist.destroy_process_group()
"""
    printed = run_job(code, launcher=open_mpi)
    for rank, text in enumerate(printed):
        assert f"sum [4.0, 4.0, 4.0, 4.0] 2 {rank}" in text
