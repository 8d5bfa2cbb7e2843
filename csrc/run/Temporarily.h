#pragma once

#include <utility>

namespace openhpu {

// A variable has another value while this lives.
template <class T>
class Temporarily {
 public:
  Temporarily(T& variable, T value) : variable_(variable), before_(std::exchange(variable, value)) {}
  ~Temporarily() { variable_ = before_; }
  Temporarily(const Temporarily&) = delete;
  Temporarily& operator=(const Temporarily&) = delete;

 private:
  T& variable_;
  const T before_;
};

}  // namespace openhpu
