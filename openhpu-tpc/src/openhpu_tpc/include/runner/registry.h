// The kernels of a library, which `openhpu tpc build` lists in a table.
#pragma once

#include <stdint.h>

namespace tpc {

struct KernelEntry {
  const char* name;    // of the source, or what the build named it
  const char* source;  // the path as given
  void (*run)(const uint32_t* scalars);
  int tensors;
  int scalars;
  // Of the variant with checks; null in a library without it.
  void (*run_checked)(const uint32_t* scalars);
  const uint32_t* local_bytes;
  const char* local;    // the variables in local memory, with their places
  const char* lacking;  // what the generation lacks, a line each
};

extern const KernelEntry kernels[] __attribute__((visibility("hidden")));
extern const int kernel_count __attribute__((visibility("hidden")));
// The generation that the library was built for, as `--generation` names it.
extern const char* const built_for __attribute__((visibility("hidden")));
// What this machine needs: null at the end.
extern const char* const required_features[] __attribute__((visibility("hidden")));

// What glue copies as its ELF. The number says which kernel.
constexpr char kMarker[] = "OpenHPU TPC kernel";
struct Marker {
  char text[24];
  uint32_t number;
  uint32_t check;
  char rest[32];
};
constexpr uint32_t kMarkerCheck = 0x74706331;

}  // namespace tpc
