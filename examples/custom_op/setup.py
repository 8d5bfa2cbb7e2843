"""The extension of this folder as a package: `pip install --no-build-isolation .` with OpenHPU or on a Gaudi."""

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

from habana_frameworks.torch.utils.lib_utils import get_include_dir, get_lib_dir

setup(
    name="smooth-relu",
    version="1.0",
    ext_modules=[
        CppExtension(
            "smooth_relu",
            ["smooth_relu.cpp"],
            include_dirs=[get_include_dir(), "/usr/include/habanalabs"],
            library_dirs=[get_lib_dir()],
            libraries=["habana_pytorch2_plugin"],
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
