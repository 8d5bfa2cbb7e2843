#pragma once

#include <cstddef>
#include <cstdint>

// Early start of a step: its execution begins while the rest is still being recorded. This is for steps that the script
// waits for, because it reads a loss or a norm. Without it such a step would first be recorded while the device has no
// work, and then run while the script waits.
//
// If the script waited after the last steps, a step is handed over in pieces. They end with the forward pass, the
// backward pass and the optimizer, where few tensors are alive that are not needed later, and after kMostNodes
// operators, since a step of small operators is recorded for longer than it runs. A step without a backward
// pass stays one graph. So does a step of large operators: recording is a small part of its time, and pieces lose more,
// since kernels are not fused across their ends. Only the program decides, never the speed of the device.
namespace openhpu {

class EarlyStart {
 public:
  // Called before an operator is recorded: whether to hand over the recording now, which has `nodes` operators.
  bool due(size_t nodes) noexcept;
  // A graph was handed over: a piece of a step, or all of it or its rest. `bytes`: of the storages that it makes.
  void handed_over(size_t operators, size_t bytes, bool piece) noexcept;
  // The script waited for the graph and read a value of it.
  void waited() noexcept;

 private:
  // What the script does: autograd's backward pass, or operators with or without gradients (forward pass, optimizer).
  enum class Phase : uint8_t { Backward, WithGradients, WithoutGradients };
  static Phase phase() noexcept;

  // Of many graphs handed over without a wait all but the last had time to begin.
  static constexpr uint32_t kMostGraphs = 2;
  static constexpr uint32_t kLeastWaits = 2;
  // Least number of operators of a piece. Handing one over takes as long as recording two or three.
  static constexpr size_t kLeastNodes = 4;
  static constexpr size_t kMostNodes = 32;
  // Most bytes that an operator writes on average. Larger ones take longer than their recording.
  static constexpr size_t kMostBytes = size_t{128} << 10;

  Phase phase_ = Phase::WithGradients;  // of what was recorded last
  // Of the step so far; and whether those of the last one with a backward pass were small.
  size_t operators_ = 0, bytes_ = 0;
  bool small_ = true;
  // Graphs since the script last waited, and since a backward pass.
  uint32_t since_wait_ = 0, since_backward_ = kMostGraphs + 1;
  uint32_t waits_ = 0;  // in a row, each after at most kMostGraphs graphs
};

}  // namespace openhpu
