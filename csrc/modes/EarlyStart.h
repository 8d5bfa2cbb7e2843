#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

// Execution begins while the rest of a step is still being recorded, where the script is going to wait for the step: a
// loss that is read, a norm. Recorded as a whole, such a step first is recorded while the device has nothing to do, and
// then runs while the script waits.
//
// A step that ended in a wait the last times is handed over in pieces, which end with the forward and with the backward:
// there little is alive but what is needed later anyway. What decides is the program alone, never how fast the device is. A step that
// nobody waits for stays one graph.
namespace openhpu {

class EarlyStart {
 public:
  // Before an operator is recorded: whether what was recorded before is to be handed over now.
  // `prefix`: hash of what was recorded since the last graph was handed over, which had `nodes` operators.
  bool due(uint64_t prefix, size_t nodes);
  // A graph was handed over for another reason, or the rest of one; `whole`: its hash.
  void flushed(uint64_t whole);
  // What is recorded next begins a step; said where a graph was handed over that is none.
  void begin() noexcept;
  // The script waited for what was handed over, in order to read it.
  void waited();

 private:
  // What is known of a step: how often it was seen, and how often a wait followed.
  struct Step {
    uint64_t first_boundary = 0;  // hash of its first piece; 0: no backward, or nothing else
    uint32_t sights = 0, waits = 0;
    bool in_pieces = false;
  };
  void decide(Step& step);

  static constexpr size_t kMostSteps = 4096;
  static constexpr uint32_t kMemory = 8;  // sights after which old ones count half
  static constexpr size_t kMostGraphs = 2;
  // Operators of a piece at least: to hand one over costs what it takes to record two or three.
  static constexpr size_t kLeastNodes = 4;

  bool in_backward_ = false;                // what was recorded last
  uint64_t first_boundary_ = 0;             // of the graph being recorded
  Step* current_ = nullptr;                 // the step being recorded, when it is handed over in pieces
  std::unordered_map<uint64_t, Step> steps_;       // by hash of the whole
  std::unordered_map<uint64_t, Step*> boundaries_;  // of steps in pieces, by their first piece
  std::vector<Step*> since_wait_;           // handed over since the script last waited
};

}  // namespace openhpu
