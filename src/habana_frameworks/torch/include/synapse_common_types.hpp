// Types that users' operators take from Gaudi's SDK: the params of its graph's own nodes. Only what public documents
// name is here. Members that these do not give a value are zeros.
#pragma once

#include <cstdint>

// Of a sort along one dimension that keeps the first `bsw` elements: guid "topk". `axis` counts from the fastest
// dimension on. `bottomK`: the smallest elements instead of the largest.
struct synBeamParams {
  uint32_t bsw;
  uint32_t axis;
  bool bottomK;
};
