// printf of kernels. The text goes to the standard output, a line at a time.
#pragma once

#include "engine.h"
#include "small.h"

namespace tpc {

template <class T>
TPC_INLINE auto printable(T value) {
  if constexpr (IsSmall<T>::value)
    return static_cast<double>(float(value));
  else
    return value;
}

}  // namespace tpc

template <class... A>
TPC_INLINE void printf(const char* format, A... values) {
  char text[512];
  __builtin_snprintf(text, sizeof(text), format, tpc::printable(values)...);
  tpc::print_line(text);
}
