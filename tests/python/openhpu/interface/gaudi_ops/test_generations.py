"""What differs between generations: the range of fp8."""


def test_gaudi_3_has_the_whole_range_and_gaudi_1_no_fp8(script):
    code = """
        import habana_frameworks.torch, torch
        y = torch.ops.hpu.cast_to_fp8_v2(torch.tensor([1e4, -300.0], device="hpu"), dtype=torch.float8_e4m3fn)[0]
        assert y.float().tolist() == [448.0, -288.0], y.float()
    """
    script(code, OPENHPU_GENERATION="gaudi3")
    failed = script(code, fails=True, OPENHPU_GENERATION="gaudi")
    assert "needs Gaudi 2 or 3" in failed.last
    assert "OPENHPU_GENERATION" in failed.last
