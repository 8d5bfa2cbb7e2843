"""The driver: inputs, symbols, errors and their places."""

import subprocess

import pytest
import torch

from openhpu_tpc import building, glue
from openhpu_tpc.command import main
from openhpu_tpc.compiling import Compiled, Options, Source
from openhpu_tpc.loading import KernelError, Library
from tests.tpc.libraries import built, library

COPY = """void main(tensor in, tensor out)
{
    const int5 at = get_index_space_offset() * (int5){64, 1, 1, 1, 1};
    v_f32_st_tnsr(at, out, v_f32_ld_tnsr_b(at, in) + ADDED);
}
"""
DESCRIBED = """[[kernel]]
guid = "copy_f32"
source = "copy.c"
inputs = ["f32"]
outputs = ["f32"]
space = ["out0[0] / 64"]
"""
ENTRY = """#include <cstring>
#include "tpc_kernel_lib_interface.h"
using namespace tpc_lib_api;
{externs}
extern "C" GlueCodeReturn GetKernelGuids(DeviceId, uint32_t* n, GuidInfo* g)
{{
    if (g && *n) strcpy(g[0].name, "copy_f32");
    *n = 1;
    return GLUE_SUCCESS;
}}
extern "C" GlueCodeReturn InstantiateTpcKernel(HabanaKernelParams* p, HabanaKernelInstantiation* q)
{{
    q->indexSpaceRank = 1;
    q->indexSpaceGeometry[0] = (p->outputTensors[0].geometry.maxSizes[0] + 63) / 64;
    {program}
    return GLUE_SUCCESS;
}}
"""
OLDER = """#include <string.h>
#include "gc_interface.h"
extern unsigned char _binary___copy_o_start, _binary___copy_o_end;
extern "C" gcapi::GlueCodeReturn_t GetKernelNames(char** names, unsigned* count, gcapi::DeviceId_t device)
{
    if (names) strcpy(names[0], "copy_f32");
    *count = device == gcapi::DEVICE_ID_GAUDI ? 1 : 0;
    return gcapi::GLUE_SUCCESS;
}
extern "C" gcapi::GlueCodeReturn_t HabanaKernel(
    gcapi::HabanaKernelParams_t* in, gcapi::HabanaKernelInstantiation_t* out)
{
    if (in->inputTensorNr != 1) return gcapi::GLUE_INCOMPATIBLE_INPUT_COUNT;
    if (in->inputTensors[0].dataType != gcapi::DATA_F32) return gcapi::GLUE_INCOMPATIBLE_DATA_TYPE;
    out->indexSpaceGeometry.dims = 1;
    out->indexSpaceGeometry.sizes[0] = (in->outputTensors[0].geometry.sizes[0] + 63) / 64;
    out->outputTensorAccessPattern[0].dim[0].dim = 0;
    out->outputTensorAccessPattern[0].dim[0].start_a = 64;
    unsigned bytes = &_binary___copy_o_end - &_binary___copy_o_start, room = out->elfSize;
    out->elfSize = bytes;
    if (room < bytes) return gcapi::GLUE_INSUFICIENT_ELF_BUFFER;
    memcpy(out->kernelElf, &_binary___copy_o_start, bytes);
    return gcapi::GLUE_SUCCESS;
}
"""


def command(folder, files, *options):
    for name, text in files.items():
        (folder / name).write_text(text)
    given = [str(folder / name) for name in files]
    return main(["build", *given, "-o", str(folder / "lib.so"), *options])


def added(loaded, guid="copy_f32", generation=2):
    x = torch.arange(100.0)
    y = torch.zeros(100)
    loaded.run(guid, [x], [y], pieces=2, generation=generation)
    return (y - x).unique().tolist()


def test_the_older_entry_points():
    loaded = library({"copy.c": COPY, "glue.cpp": OLDER}, "-D", "ADDED=1", "--generation", "gaudi")
    assert loaded.guids(1) == ["copy_f32"]
    assert loaded.guids(2) == []
    assert added(loaded, generation=1) == [1.0]
    with pytest.raises(KernelError, match="the number of inputs is wrong"):
        loaded.run("copy_f32", [torch.zeros(64)] * 2, [torch.zeros(64)])
    with pytest.raises(KernelError, match="does not take these dtypes"):
        loaded.run("copy_f32", [torch.zeros(64, dtype=torch.int32)], [torch.zeros(64)])


def test_one_source_as_two_kernels(tmp_path):
    (tmp_path / "copy.c").write_text(COPY)
    (tmp_path / "two.toml").write_text(
        DESCRIBED.replace("copy.c", "one") + DESCRIBED.replace("copy.c", "two").replace("copy_f32", "other_f32")
    )
    given = [f"{name}={tmp_path / 'copy.c'}:-DADDED={number}" for name, number in (("one", 1), ("two", 2))]
    assert main(["build", *given, str(tmp_path / "two.toml"), "-o", str(tmp_path / "lib.so")]) == 0
    loaded = Library(tmp_path / "lib.so")
    assert (added(loaded), added(loaded, "other_f32")) == ([1.0], [2.0])


def test_for_all_processors_with_avx2():
    path = built({"copy.c": COPY, "copy.toml": DESCRIBED}, "-D", "ADDED=3", "--march", "x86-64-v3")
    assert added(Library(path)) == [3.0]


def test_for_gdb_lines_are_the_users(tmp_path):
    assert command(tmp_path, {"copy.c": COPY, "copy.toml": DESCRIBED}, "--debug", "-D", "ADDED=4") == 0
    assert added(Library(tmp_path / "lib.so")) == [4.0]
    lines = subprocess.run(["readelf", "--debug-dump=decodedline", tmp_path / "lib.so"], capture_output=True, text=True)
    assert "copy.c" in lines.stdout


def test_symbols_find_their_kernels(tmp_path):
    kernels = [Compiled(Source(tmp_path / f"{name}.c", name), tmp_path, []) for name in ("add", "fused_add")]
    assert glue.kernel_of("_binary___add_o_start", kernels) == 0
    assert glue.kernel_of("_binary_build_fused_add_o_end", kernels) == 1
    assert glue.kernel_of("_binary_fused_add_o_size", kernels) == 1
    with pytest.raises(building.BuildError, match=r"_binary_other_o_start.*Kernels: add, fused_add"):
        glue.kernel_of("_binary_other_o_start", kernels)


FAULTS = {
    "a symbol without a source": (
        {
            "copy.c": COPY,
            "glue.cpp": ENTRY.format(
                externs='extern "C" unsigned char _binary_missing_o_start;', program="(void)&_binary_missing_o_start;"
            ).replace("(void)&", "q->kernel.kernelElf = &"),
        },
        "_binary_missing_o_start, and no kernel has its name. Kernels: copy",
    ),
    "an intrinsic that is not there": (
        {
            "copy.c": COPY.replace("+ ADDED", "+ v_f32_get_lut_entry_and_interval_start_b(1, 0).v2"),
            "copy.toml": DESCRIBED,
        },
        "copy.c:4: error: v_f32_get_lut_entry_and_interval_start_b: the contents of a Gaudi's own look-up tables",
    ),
    "an intrinsic that does not exist": (
        {"copy.c": COPY.replace("+ ADDED", "+ v_f32_twice_b(1)"), "copy.toml": DESCRIBED},
        "copy.c:4: error: v_f32_twice_b: there is no intrinsic of this name",
    ),
    "an error of the compiler": ({"copy.c": COPY, "copy.toml": DESCRIBED}, "copy.c:4:"),
    "no main": ({"copy.c": "int f(void) { return 1; }\n", "copy.toml": DESCRIBED}, "there is no function main"),
    "assembly": ({"copy.s": "nop\n", "copy.toml": DESCRIBED}, "it is assembly of a card's processor"),
    "no glue": ({"copy.c": COPY}, "no glue was given"),
    "an unknown key": ({"copy.c": COPY, "copy.toml": DESCRIBED + "grid = 1\n"}, "grid is no key of a kernel"),
    "no size": (
        {"copy.c": COPY, "copy.toml": DESCRIBED.replace("out0[0] / 64", "width")},
        "'width' is no size",
    ),
    "an object": ({"copy.o": "x", "copy.toml": DESCRIBED}, "it is a program that is compiled already"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_wrong_is_said(tmp_path, capsys, name):
    files, expected = FAULTS[name]
    defined = ("-D", "ADDED=1") if name != "an error of the compiler" else ()
    assert command(tmp_path, files, *defined) == 1
    assert expected in capsys.readouterr().err


def test_an_unknown_pragma_is_a_warning(tmp_path, capsys):
    source = COPY.replace("{\n", "{\n    #pragma fancy_unroll(4)\n", 1)
    assert command(tmp_path, {"copy.c": source, "copy.toml": DESCRIBED}, "-D", "ADDED=1") == 0
    assert "copy.c:3: warning: the pragma fancy_unroll is unknown" in capsys.readouterr().err


def test_a_program_for_a_card_is_refused():
    program = 'static const char elf[] = "\\177ELF\\2"; memcpy(q->kernel.kernelElf, elf, 6); q->kernel.elfSize = 6;'
    loaded = library({"copy.c": COPY, "glue.cpp": ENTRY.format(externs="", program=program)}, "-D", "ADDED=1")
    with pytest.raises(KernelError, match=r"gives a program for a card. Build the library with: openhpu tpc build"):
        loaded.run("copy_f32", [torch.zeros(64)], [torch.zeros(64)])


def test_tensors_that_a_kernel_can_not_have():
    loaded = library({"copy.c": COPY, "copy.toml": DESCRIBED}, "-D", "ADDED=1")
    with pytest.raises(KernelError, match="has 6 dimensions"):
        loaded.run("copy_f32", [torch.zeros(1, 1, 1, 1, 1, 64)], [torch.zeros(64)])
    with pytest.raises(KernelError, match="17 tensors; a kernel takes up to 16"):
        loaded.run("copy_f32", [torch.zeros(64)] * 16, [torch.zeros(64)])
    with pytest.raises(KernelError, match="stride of 2 in its last dimension"):
        loaded.run("copy_f32", [torch.zeros(64, 2)[:, 0]], [torch.zeros(64)])
    with pytest.raises(KernelError, match=r"no type for torch.float64"):
        loaded.run("copy_f32", [torch.zeros(64, dtype=torch.float64)], [torch.zeros(64)])


def test_a_kernel_whose_checks_do_not_compile_is_built_without_them(tmp_path, monkeypatch, capsys):
    def refuse(*given):
        raise building.BuildError("copy.c:4: error: it is not C++")

    monkeypatch.setattr(building.compiling, "compile_checked", refuse)
    assert command(tmp_path, {"copy.c": COPY, "copy.toml": DESCRIBED}, "-D", "ADDED=5") == 0
    assert "copy.c: warning: it is built without checks: copy.c:4: error: it is not C++" in capsys.readouterr().err
    assert added(Library(tmp_path / "lib.so")) == [5.0]


def test_another_processor_refuses_the_library(tmp_path, monkeypatch):
    monkeypatch.setattr(building, "_needed", lambda options: ["avx1024"])
    assert command(tmp_path, {"copy.c": COPY, "copy.toml": DESCRIBED}, "-D", "ADDED=1", "--no-checks") == 0
    with pytest.raises(KernelError, match=r"it was built for a processor with avx1024.*or with --march x86-64-v3"):
        Library(tmp_path / "lib.so")


def test_counting_intrinsics(capsys):
    assert main(["intrinsics", "v_f32_mac_b"]) == 0
    assert "v_f32_mac_b\timplemented" in capsys.readouterr().out
    assert main(["intrinsics", "get_lut_entry"]) == 0
    assert "v_f32_get_lut_entry_and_interval_start_b\trefused: the contents of a Gaudi's own" in capsys.readouterr().out
    assert Options().march == "native"
