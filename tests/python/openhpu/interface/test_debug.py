"""`habana_frameworks.torch.utils.debug`."""

import json
import logging

import pytest
import torch

from habana_frameworks.torch.utils import debug as htdebug


def test_a_logger_keeps_what_it_is_told(capsys):
    logger = htdebug.logger.Logger("insight_test")
    logger.info("before")
    logger.set_store_data(True)
    htdebug.logger.enable_logging("INSIGHT_TEST", "warn")
    logger.info("quiet")
    logger.error("loud %s")
    assert logger.data == ["quiet", "loud %s"]
    assert capsys.readouterr().err == "[PT_INSIGHT_TEST][ERROR] loud %s\n"
    with pytest.raises(ValueError, match="expected a number or one of trace, debug"):
        htdebug.logger.enable_logging("x", "shout")


def test_memory_goes_to_the_log_and_to_a_file(hpu, tmp_path, caplog):
    x = torch.ones(1024, device="hpu")
    with caplog.at_level(logging.INFO, "PT_MEMLOG"):
        htdebug._mem_log("here:")
    assert caplog.messages[0].startswith("here: in use ")
    htdebug._dump_memory_reporter(tmp_path / "memory.json")
    assert json.loads((tmp_path / "memory.json").read_text())["InUse"] >= x.numel() * 4


def test_the_state_before_the_end(hpu, tmp_path):
    target = tmp_path / "state.json"
    with pytest.raises(RuntimeError, match="planted; the device's state is in"):
        htdebug.utils.dump_device_state_and_terminate("planted", str(target))
    assert json.loads(target.read_text())["mode"] == "eager"


def test_graphs_are_counted_and_forgotten(script):
    code = """
        import torch
        import habana_frameworks.torch.core as htcore
        from habana_frameworks.torch.utils import debug as htdebug
        x = torch.ones(4).to("hpu")
        for _ in range(3):
            y = x + 1
            htcore.mark_step()
        print(htdebug._get_jit_cache_size())
        htdebug._clear_jit_cache()
        print(htdebug._get_jit_cache_size(), y.tolist())
        """
    assert script(code, PT_HPU_LAZY_MODE="1").out.splitlines() == ["1", "0 [2.0, 2.0, 2.0, 2.0]"]
