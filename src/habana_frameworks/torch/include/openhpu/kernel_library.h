// Where kernels come from besides registered functions: libraries that GC_KERNEL_PATH lists, and runners of such
// libraries. This header includes nothing of PyTorch.
//
// A guid is looked up when an operator is called for the first time: (a) functions of C++ and (b) of Python that are
// registered for it, (c) the libraries of GC_KERNEL_PATH in their order, (d) the table of the vendor's guids.
//
// A listed library is loaded with dlopen at the first such look-up. A listed file that does not exist is passed over.
// - If it exports `openhpu_tpc_kernels`, that function describes its kernels.
// - Otherwise, if a runner was set, the runner is asked with the library's handle: for libraries with the entry points
//   of the vendor's compiler (GetKernelGuids, InstantiateTpcKernel and the like). Without a runner the library is
//   passed over, and the error of a guid without a kernel names it.
#pragma once

#include "openhpu/custom_kernel.h"

namespace openhpu {

// A kernel that serves all calls of one guid.
struct LibraryKernel {
  // As a CustomKernel. `context` is the member below. What it throws becomes the error of the call.
  void (*run)(void* context, const KernelCall& call);
  // Optional. Called on the host's thread for the first call with certain dtypes, sizes and params, before it is queued
  // or recorded. `data` of all operands is null. What it throws is raised at the operator's line: an unsupported dtype
  // or size. A Gaudi's library would be asked to instantiate the kernel here.
  void (*check)(void* context, const KernelCall& call);
  void* context;  // stays valid until the process ends
};

constexpr uint32_t kKernelLibraryVersion = 1;

struct KernelLibrary {
  uint32_t version;  // kKernelLibraryVersion
  // Fills `kernel` if the library has one for the guid. Host's thread; several at once. It may throw.
  bool (*find)(void* library, const char* guid, LibraryKernel* kernel);
  void* library;  // the first argument of `find`
};

// What a listed library may export. The result stays valid until the process ends; null: it has no kernels.
//   extern "C" OPENHPU_EXPORT const openhpu::KernelLibrary* openhpu_tpc_kernels();
using KernelLibraryEntry = const KernelLibrary* (*)();
constexpr const char* kKernelLibraryEntry = "openhpu_tpc_kernels";

// Runs libraries that do not export this.
struct LibraryRunner {
  uint32_t version;  // kKernelLibraryVersion
  const char* name;  // for errors: "openhpu-tpc 0.1"
  // The kernels of a library, which was loaded from `path`; null: it is no kernel library. It may throw.
  const KernelLibrary* (*open)(void* runner, void* handle, const char* path);
  void* runner;  // the first argument of `open`
};

// Sets the runner of this process. Libraries that were passed over are asked again. Both plugin libraries export it,
// and `openhpu.custom.set_library_runner(address)` does the same from Python, with the address of a LibraryRunner.
extern "C" OPENHPU_EXPORT void openhpu_set_library_runner(const LibraryRunner* runner);

}  // namespace openhpu
