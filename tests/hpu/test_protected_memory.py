"""The debug mode in which device memory is inaccessible outside kernels."""

import signal


def test_a_host_access_crashes_at_the_spot(script):
    code = """
        import ctypes
        x = torch.ones(4, device="hpu")
        torch.hpu.synchronize()
        print("before", flush=True)
        ctypes.string_at(x.data_ptr(), 4)
        print("after", flush=True)
    """
    result = script(code, fails=True, OPENHPU_PROTECT_MEMORY="1")
    assert result.code == -signal.SIGSEGV
    assert result.out == "before"
    assert "string_at" in result.err  # faulthandler's traceback shows who it was
    assert script(code).out.splitlines() == ["before", "after"]


def test_programs_run_under_it(script):
    code = """
        import io
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.1), nn.Flatten(), nn.Linear(144, 3)
        ).to("hpu")
        optimizer = torch.optim.AdamW(model.parameters())
        x, target = torch.randn(4, 1, 8, 8).pin_memory(), torch.tensor([0, 1, 2, 0])
        for _ in range(3):
            with torch.autocast("hpu"):
                loss = train_step(model, optimizer, x.to("hpu", non_blocking=True), target.to("hpu"))
        assert loss.isfinite().item()
        y = torch.arange(12.0, device="hpu").view(3, 4)
        repr(y), y.tolist(), y[1, 2].item(), y.cpu().numpy(), y.nonzero(), y[y > 3], y.unique(), bool((y > 0).any())
        y.untyped_storage().resize_(96), y.double().sum().item(), torch.linalg.svdvals(y), y.t().contiguous()
        y.resize_(40), torch.equal(y, y), torch.allclose(y, y), torch.empty(0, device="hpu").set_(y.untyped_storage())
        torch.add(y, y, out=torch.empty(0, device="hpu")), torch.cat([y, y]), torch.randperm(5, device="hpu").tolist()
        torch.multinomial(torch.ones(5, device="hpu"), 2), torch.fft.fft(y).cpu()
        torch.ones(2, 2, device="hpu").to_sparse()
        buffer = io.BytesIO()
        torch.save(model.state_dict(), buffer)
        buffer.seek(0)
        torch.load(buffer)
        torch.hpu.empty_cache()
        a = torch.arange(4.0, device="hpu:0")
        assert (a.to("hpu:1") + 1).to("hpu:0").tolist() == [1.0, 2.0, 3.0, 4.0]
        assert _C.clone_memory(a).tolist() == [0.0, 1.0, 2.0, 3.0]
        with pytest.raises(IndexError):
            nn.functional.embedding(torch.tensor([9], device="hpu"), torch.ones(2, 2, device="hpu")).cpu()
        assert torch.ones(2, device="hpu").tolist() == [1.0, 1.0]
    """
    script(code, OPENHPU_PROTECT_MEMORY="1", OPENHPU_DEVICE_COUNT="2", OPENHPU_OUT_OF_RANGE="error")
