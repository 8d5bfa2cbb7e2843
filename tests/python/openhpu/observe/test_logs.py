"""Loggers in Gaudi's form. Each test of a log is a process of its own."""

import pytest

from openhpu.observe import events, logs
from openhpu.observe.insight import documents, sentences

CODE = """
import torch
import habana_frameworks.torch.core as htcore
x = torch.ones(4, device="hpu")
for _ in range(3):
    y = x + 1
    htcore.mark_step()
torch.linalg.svdvals(torch.eye(2, device="hpu"))
y.cpu()
"""


def log(tmp_path):
    file = tmp_path / "pytorch_log.txt"
    return file.read_text() if file.exists() else ""


def loggers(text):
    return {line.split("][")[1] for line in text.splitlines()}


def test_a_recompilation_has_the_reports_sentence():
    params = {"op": "aten::mm", "argument": "self", "cause": "size", "dimension": 0, "before": "8", "after": "6"}
    event = events.Event("recompilation", 0, ("script.py", 3), params)
    text = next(text for kind, _, _, text in logs._MESSAGES if kind == "recompilation")(event)
    assert text == "recompilation by size: aten::mm: size of dimension 0 of `self`: 8 before, then 6"
    assert text.endswith(sentences.recompilation(documents.changed(params)))


def test_everything_in_lazy_mode(script, tmp_path):
    script(CODE, LOG_LEVEL_ALL="0", HABANA_LOGS=str(tmp_path), PT_HPU_LAZY_MODE="1", OPENHPU_COMPILE="off")
    text = log(tmp_path)
    assert {"PT_DEVICE", "PT_LAZY", "PT_BRIDGE", "PT_SYNHELPER", "PT_FALLBACK", "PT_DEVMEM"} == loggers(text)
    assert "device 0 acquired" in text
    assert "[PT_LAZY][TRACE] mark_step" in text
    assert "ran as node by node (<string>:6)" in text
    assert "the host waits for 16 bytes in aten::_to_copy (<string>:9)" in text


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"PT_HPU_LOG_MOD_MASK": "80", "PT_HPU_LOG_TYPE_MASK": "8"}, {"PT_FALLBACK"}),
        ({"PT_HPU_LOG_MOD_MASK": "0x81"}, {"PT_FALLBACK", "PT_DEVICE"}),
        ({"PT_HPU_LOG_MOD_MASK": "80", "PT_HPU_LOG_TYPE_MASK": "3"}, set()),
        ({"PT_HPU_LOG_MOD_MASK": "28", "PT_HPU_LOG_TYPE_MASK": "4"}, {"PT_LAZY", "PT_SYNHELPER"}),
        ({"PT_HPU_LOG_MOD_MASK": "ff", "LOG_LEVEL_ALL": "6"}, set()),
        # Of levels the narrower one wins.
        ({"LOG_LEVEL_ALL_PT": "2"}, {"PT_FALLBACK", "PT_DEVICE"}),
        ({"LOG_LEVEL_ALL": "0", "LOG_LEVEL_ALL_PT": "6"}, set()),
        ({"LOG_LEVEL_ALL": "6", "LOG_LEVEL_PT_DEVICE": "2"}, {"PT_DEVICE"}),
        ({"LOG_LEVEL_ALL_PT": "2", "LOG_LEVEL_PT_FALLBACK": "3"}, {"PT_DEVICE"}),
        ({"LOG_LEVEL_PT_SYNHELPER": "0", "PT_HPU_LOG_MOD_MASK": "80"}, {"PT_SYNHELPER", "PT_FALLBACK"}),
    ],
)
def test_the_older_masks_and_levels_choose_loggers(script, tmp_path, variables, expected):
    script(CODE, HABANA_LOGS=str(tmp_path), **variables)
    assert loggers(log(tmp_path)) == expected


def test_without_a_folder_logs_go_to_the_users_and_to_the_console_if_asked(script, tmp_path):
    result = script(CODE, PT_HPU_LOG_MOD_MASK="80", PT_HPU_LOG_TYPE_MASK="8", ENABLE_CONSOLE="true")
    text = log(tmp_path / ".habana_logs")
    assert "CPU fallback" in text
    assert ": self=HABANAFloatType" in text
    assert result.err == text.strip()
