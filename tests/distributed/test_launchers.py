"""Launchers: Open MPI's variables, and what torchrun says of a job that cannot begin."""

from tests.distributed.launched import check_port, ended
from tests.distributed.ranks import Job, open_mpi

TORCHRUN = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "PORT", "job.py"]


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


def test_torchrun_and_a_port_in_use(tmp_path):
    check_port(ended(tmp_path, TORCHRUN))


def test_torchrun_and_a_rank_that_dies_at_import(tmp_path):
    done = ended(tmp_path, TORCHRUN, dies=True)
    assert "ImportError: no module of mine" in done.output
    assert "rank      : 1 (local_rank: 1)" in done.output.partition("Root Cause")[2]
