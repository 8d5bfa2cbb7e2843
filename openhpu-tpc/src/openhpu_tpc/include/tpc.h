// The language of kernels, without the intrinsics: `openhpu tpc build` adds those that a kernel uses.
#pragma once

#include "tpc/classes.h"
#include "tpc/functions.h"
#include "tpc/local.h"
#include "tpc/memory.h"
#include "tpc/print.h"
#include "tpc/random.h"

static_assert(sizeof(float64) == 256 && sizeof(bool256) == 32, "a vector has 2,048 bits");

#define __global
#define __global__
#define __local
#define __constant__ const
