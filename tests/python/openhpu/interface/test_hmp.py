"""Habana Mixed Precision. It stays on for its thread, so that each test has a process of its own."""

SAMPLE = """
    import torch, openhpu
    from habana_frameworks.torch.hpex import hmp

    N, D_in, D_out = 64, 1024, 512
    x = torch.randn(N, D_in, device="habana")
    y = torch.randn(N, D_out, device="habana")

    hmp.convert(opt_level="O1", bf16_file_path="", fp32_file_path="", isVerbose=False)
    model = torch.nn.Linear(D_in, D_out).to(torch.device("habana"))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    losses, before = [], model.weight.detach().clone()
    for t in range(5):
       y_pred = model(x)
       loss = torch.nn.functional.mse_loss(y_pred, y)
       optimizer.zero_grad()
       loss.backward()

       # disable mixed precision for optimizer block
       with hmp.disable_casts():
         optimizer.step()
       losses.append(loss.item())

    assert y_pred.dtype is torch.bfloat16
    assert model.weight.dtype is model.weight.grad.dtype is torch.float32
    assert not torch.equal(model.weight, before)
    assert all(abs(loss - losses[0]) < 0.1 for loss in losses)
    assert torch.accelerator.current_accelerator().type == x.device.type == str(torch.device("habana", 0))[:3] == "hpu"
    assert torch.device("habana:0") == torch.device("hpu", 0)
"""


def test_the_users_guides_sample(script):
    script(SAMPLE)
    script(SAMPLE, PT_HPU_LAZY_MODE="1", OPENHPU_COMPILE="off")


def test_dtypes_of_the_lists(script, tmp_path):
    (tmp_path / "bf16.txt").write_text("relu\nmm\n")
    (tmp_path / "fp32.txt").write_text("add\n")
    script(f"""
        import torch
        from torch.nn import functional as F
        from habana_frameworks.torch.hpex import hmp
        x, low = torch.ones(4, 4, device="hpu", requires_grad=True), torch.ones(4, 4, device="hpu").bfloat16()
        b, f = torch.bfloat16, torch.float32
        hmp.convert()
        for y in (x @ x, torch.mm(x, x), torch.addmm(x, x, x), F.linear(x, x), torch.bmm(x[None], x[None]),
                  torch.dot(x[0], x[0]), torch.mv(x, x[0]), F.conv1d(x[None], x[None])):
            assert y.dtype is b
        for y in (F.softmax(low, -1), torch.log_softmax(low, -1), low.softmax(-1), torch.topk(low, 2).values,
                  F.cross_entropy(low, torch.arange(4, device="hpu")), F.batch_norm(low, None, None, training=True)):
            assert y.dtype is f
        assert F.relu(low).dtype is b
        assert F.relu(x).dtype is f  # the first tensor's
        assert F.mse_loss(low, x).dtype is b
        assert F.layer_norm(low, (4,), x[0]).dtype is b
        assert (low + x).dtype is (x + low).dtype is torch.cat([low, x]).dtype is torch.stack([low, x]).dtype is f
        z = low.clone()
        z += x
        z.mul_(x).add_(x)
        assert z.dtype is b
        assert x.double() @ x.double() is not None
        assert (x.double() @ x.double()).dtype is torch.float64
        cpu = torch.ones(2, 2)
        assert (cpu @ cpu).dtype is f
        node = (x @ x).grad_fn.next_functions[0][0]
        assert node.name().endswith("::CopyBackwards"), node.name()
        with hmp.disable_casts():
            assert (x @ x).dtype is f
        hmp.convert(opt_level="O2")
        assert (x @ x).dtype is b
        assert F.relu(low).dtype is f
        assert (low + low).dtype is f
        hmp.convert(bf16_file_path=r"{tmp_path}/bf16.txt", fp32_file_path=r"{tmp_path}/fp32.txt")
        assert F.relu(x).dtype is b
        assert (low + low).dtype is f
        assert torch.bmm(x[None], x[None]).dtype is f
    """)


def test_log_and_errors(script):
    out = script("""
        import torch
        from habana_frameworks.torch.hpex import hmp
        x = torch.ones(2, 2, device="hpu")
        hmp.convert(isVerbose=True)
        torch.mm(x, x)
        x.bfloat16() * x
        for arguments in ({"opt_level": "O3"}, {"bf16_file_path": "/nowhere.txt"}):
            try:
                hmp.convert(**arguments)
            except Exception as error:
                print(type(error).__name__, error)
    """).out.splitlines()
    assert out[0] == "casting  <built-in method mm of type object at " + out[0].split(" at ")[1]
    assert out[0].endswith(">  to  to_bf16")
    assert "mul" in out[1]
    assert out[1].endswith("  to  to_fp32")
    assert out[2] == "ValueError hmp.convert: opt_level is 'O3'; expected O1 or O2"
    assert out[3].startswith("SettingError")
    assert "bf16_file_path: cannot read /nowhere.txt" in out[3]
