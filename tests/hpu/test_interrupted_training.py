"""SIGINT at random moments of a training: no hang, no crash, no wrong value.

`FUZZ=nightly` presses Ctrl-C 1,000 times, otherwise it is 100 times; `FUZZ_SEED` sets the seed.
"""

import os

import pytest

TIMES = int(os.environ.get("FUZZ_TIMES", 1000 if os.environ.get("FUZZ") == "nightly" else 100))
SEED = os.environ.get("FUZZ_SEED", "20260729")

# Each attempt trains a model some steps again and again, until the signal comes. Then the same steps, undisturbed, are
# compared with those on the CPU.
CODE = """
    faulthandler.dump_traceback_later(1200, exit=True)
    torch.set_num_threads(1)
    choose = random.Random({seed})

    def train(device):
        model, optimizer, x, target = make("mlp", device=device)
        losses = []
        for step in range(4):
            loss = train_step(model, optimizer, x.roll(step, 0), target.roll(step, 0))
            htcore.mark_step()
            losses.append(loss.item())
        return losses + [p.detach().cpu() for p in model.parameters()]

    expected = train("cpu")

    def is_right():
        torch.testing.assert_close(train("hpu"), expected, rtol=1e-4, atol=1e-5)

    # A tensor that lives through all attempts: what was submitted has run, once.
    count, added = torch.zeros(64).to("hpu"), 0
    for _ in range(3):
        train("hpu")
    since = time.monotonic()
    train("hpu")
    length = time.monotonic() - since

    interrupted = 0
    for attempt in range({times}):
        delay = choose.random() * length * 1.2
        begun, over = threading.Event(), threading.Event()
        def press():
            begun.wait()
            time.sleep(delay)
            while not over.is_set():
                os.kill(os.getpid(), signal.SIGINT)
                over.wait(1)  # Python drops an interrupt that meets a destructor
        thread = threading.Thread(target=press)
        thread.start()
        try:
            try:
                begun.set()
                while True:
                    train("hpu")
            finally:
                begun.set()
        except KeyboardInterrupt:
            over.set()
            interrupted += 1
        torch.set_grad_enabled(True)  # the interrupt may have come in the end of a `with torch.no_grad()`
        while thread.is_alive():
            thread.join()
        if attempt % 10 == 0:
            count.add_(1)
            added += 1
            is_right()
            assert (count == added).all().item()
    torch.hpu.synchronize()
    is_right()
    print(interrupted)
"""
MODES = {
    "eager": {"PT_HPU_LAZY_MODE": "0", "OPENHPU_COMPILE": "off"},
    "lazy": {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "off"},
    "compiled": {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "background", "PT_HPU_RECIPE_CACHE_CONFIG": ""},
}


@pytest.mark.parametrize("mode", MODES)
def test_an_interrupted_training(script, mode):
    result = script(CODE.format(seed=int(SEED), times=TIMES), warnings="ignore", timeout=1500, **MODES[mode])
    assert result.out == str(TIMES), result.err
