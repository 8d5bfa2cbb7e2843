LOAD = "import os, torch, habana_frameworks.torch as ht\n"


def test_eager_by_default(script):
    result = script(LOAD + "print(ht.core.is_lazy(), ht.utils.internal.is_lazy())")
    assert result.out == "False False"


def test_lazy_is_announced_as_missing_and_nothing_pretends(script):
    code = LOAD + "ht.core.mark_step(); print(ht.core.is_lazy(), torch.ones(2, device='hpu').sum().item())"
    result = script(code, warnings="default", PT_HPU_LAZY_MODE="1")
    assert result.out == "False 2.0"
    assert result.err.count("has no lazy mode yet; operators run eagerly") == 1


def test_the_variable_may_be_set_between_torch_and_habana(script):
    code = """
    import os, torch
    import habana_frameworks.autoload as autoload
    getattr(autoload, "__autoload")()
    os.environ["PT_HPU_LAZY_MODE"] = "1"
    import warnings
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        import habana_frameworks.torch
    print([w.category.__name__ for w in caught])
    """
    assert script(code).out == "['RuntimeWarning']"


def test_a_late_change_is_an_error(script):
    for use in ("ht.core.mark_step()", "ht.utils.internal.is_lazy()"):
        result = script(LOAD + f"os.environ['PT_HPU_LAZY_MODE'] = '1'; {use}", fails=True)
        assert result.last.startswith(
            "RuntimeError: PT_HPU_LAZY_MODE was changed to 1 after the mode had been read as 0"
        )


def test_a_change_after_the_first_use_of_a_device_is_an_error(script):
    code = """
    import os, torch
    import habana_frameworks.autoload as autoload
    getattr(autoload, "__autoload")()
    torch.ones(1, device="hpu")
    os.environ["PT_HPU_LAZY_MODE"] = "1"
    import habana_frameworks.torch
    """
    assert "PT_HPU_LAZY_MODE was changed to 1" in script(code, fails=True).last


def test_spelling_out_the_default_is_no_change(script):
    assert script(LOAD + "os.environ['PT_HPU_LAZY_MODE'] = '0'; ht.core.mark_step()").out == ""
