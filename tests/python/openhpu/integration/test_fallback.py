"""The table of native operators, the policy, and the log of fallbacks."""

CODE = """
import habana_frameworks.torch as ht, torch
torch.linalg.svdvals(torch.eye(2, device="hpu"))
torch.ones(2, dtype=torch.complex64, device="hpu") - 1
print(ht.utils.debug._get_fallback_op_count() == ht.hpu.metrics.metric_global("cpu_fallback").stats()[1][1] != {})
"""


def test_silent_by_default(script):
    result = script(CODE)
    assert (result.out, result.err) == ("True", "")


def test_logged_to_file_and_console(script, tmp_path):
    result = script(CODE, LOG_LEVEL_PT_FALLBACK="1", ENABLE_CONSOLE="true", HABANA_LOGS=str(tmp_path / "logs"))
    assert " : self=HABANAFloatType" in result.err
    assert "CPU fallback sub.Tensor : self=HABANAComplexFloatType" in result.err
    assert "[PT_FALLBACK]" in result.err
    assert (tmp_path / "logs" / "pytorch_log.txt").read_text().strip() == result.err


def test_logged_through_pythons_logging(script):
    code = "import logging; logging.basicConfig(); logging.getLogger('PT_FALLBACK').setLevel(logging.INFO)\n" + CODE
    assert "INFO:PT_FALLBACK:CPU fallback " in script(code).err
