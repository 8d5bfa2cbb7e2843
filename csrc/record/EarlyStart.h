#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "record/Placement.h"

// Early start of a step: its execution begins while the rest is still being recorded. This is for steps that the script
// waits for, because it reads a loss or a norm. Without it such a step would first be recorded while the device has no
// work, and then run while the script waits.
//
// A step is handed over in pieces if the script waited after it in its last repetitions. The pieces end with the
// forward pass, the backward pass and the optimizer, where few tensors are alive that are not needed later. Steps of
// small operators are recorded for longer than they run, so their pieces also end after kMostNodes operators. A step
// without a wait stays one graph. So does a step without a backward pass. So does a step of large operators: recording
// is a small part of its time, and pieces lose more, since kernels are not fused across their ends. Only the program
// decides, never the speed of the device.
namespace openhpu {

class EarlyStart {
 public:
  // Called before an operator is recorded: whether to hand over the recording now. `prefix`: the hash of the recording
  // since the last graph, which had `nodes` operators.
  bool due(uint64_t prefix, size_t nodes);
  // A graph was handed over for another reason, or the rest of a step; `whole` is its hash. `bytes`: what an operator of
  // the graph writes into storages that it makes, on average. `compiled`: whether all of the step ran as recipes.
  // `ns`: what all of the step usually takes on the device; 0: unknown. `crowded`: whether other programs want the cores.
  void flushed(uint64_t whole, size_t bytes, bool compiled, uint64_t ns, bool crowded);
  // Whether the submitting thread runs the graph of this hash, or the piece of the step that is being recorded.
  bool here(uint64_t whole) const;
  // Whether the repetitions of the step that was handed over last are timed.
  bool timed() const noexcept { return timed_; }
  // The next operator begins a step. Called after a graph that is not a step.
  void begin() noexcept;
  // The script waited for the graph and read a value of it.
  void waited();

 private:
  // What the script does: autograd's backward pass, or operators with or without gradients (forward pass, optimizer).
  enum class Phase : uint8_t { Backward, WithGradients, WithoutGradients };
  static Phase phase() noexcept;

  // A known step: the number of its repetitions, and of the waits after it.
  struct Step {
    uint64_t first_boundary = 0;  // hash of its first piece; 0: no backward, nothing else, or large operators
    uint32_t sights = 0, waits = 0;
    bool in_pieces = false;
    bool small = false;  // its operators
    bool compiled = false;
    bool placed = false;  // it is short enough for a choice of the thread
    Placement placement;
  };
  void decide(Step& step);

  static constexpr size_t kMostSteps = 4096;
  static constexpr uint32_t kMemory = 8;  // sights after which old ones count half
  static constexpr size_t kMostGraphs = 2;
  // Least number of operators of a piece. Handing one over takes as long as recording two or three.
  static constexpr size_t kLeastNodes = 4;
  // Most operators of a piece of a step whose operators write at most kSmallBytes on average.
  static constexpr size_t kMostNodes = 32, kSmallBytes = size_t{128} << 10;
  // Operators that write more take 20 times as long as their recording.
  static constexpr size_t kMostBytes = size_t{1} << 20;

  Phase phase_ = Phase::WithGradients;      // of what was recorded last
  bool timed_ = false;
  // Of the graph being recorded: its hash at the end of a phase and after kMostNodes operators, where a first piece may
  // end. 0: not yet; the latter stays 0 if a phase ended before.
  uint64_t end_of_phase_ = 0, most_nodes_ = 0;
  bool has_backward_ = false;  // the graph being recorded
  Step* current_ = nullptr;                 // the step being recorded, when it is handed over in pieces
  std::unordered_map<uint64_t, Step> steps_;       // by hash of the whole
  std::unordered_map<uint64_t, Step*> boundaries_;  // of steps in pieces, by their first piece
  std::vector<Step*> since_wait_;           // handed over since the script last waited
};

}  // namespace openhpu
