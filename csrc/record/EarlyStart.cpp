#include "record/EarlyStart.h"

#include <c10/core/GradMode.h>
#include <c10/macros/Macros.h>

#include <utility>

// <torch/csrc/autograd/graph_task.h> declares it, and includes all of autograd.
namespace torch::autograd {
TORCH_API int get_current_graph_task_id();
}

namespace openhpu {

EarlyStart::Phase EarlyStart::phase() noexcept {
  if (torch::autograd::get_current_graph_task_id() >= 0) return Phase::Backward;
  return c10::GradMode::is_enabled() ? Phase::WithGradients : Phase::WithoutGradients;
}

bool EarlyStart::due(uint64_t prefix, size_t nodes) {
  const Phase now = phase();
  has_backward_ = has_backward_ || now == Phase::Backward;
  const bool ended = std::exchange(phase_, now) != now && nodes >= kLeastNodes;
  if (C10_LIKELY(!ended && nodes < kMostNodes)) return false;
  if (current_) return ended || current_->small;
  if (end_of_phase_ != 0 || (!ended && most_nodes_ != 0)) return false;
  (ended ? end_of_phase_ : most_nodes_) = prefix;
  const auto known = boundaries_.find(prefix);
  if (known == boundaries_.end()) return false;
  current_ = known->second;
  return true;
}

bool EarlyStart::here(uint64_t whole) const {
  const Step* step = current_;
  if (const auto known = steps_.find(whole); !step && known != steps_.end()) step = &known->second;
  return step && step->placed && step->placement.here();
}

void EarlyStart::decide(Step& step) {
  const bool wanted = step.first_boundary != 0 && 2 * step.waits > step.sights;
  if (wanted == step.in_pieces) return;
  step.in_pieces = wanted;
  if (wanted)
    boundaries_[step.first_boundary] = &step;
  else if (const auto known = boundaries_.find(step.first_boundary); known != boundaries_.end() && known->second == &step)
    boundaries_.erase(known);
}

void EarlyStart::flushed(uint64_t whole, size_t bytes, bool compiled, uint64_t ns, bool crowded) {
  if (steps_.size() >= kMostSteps) {
    // Only what was learned of waits is lost.
    steps_.clear();
    boundaries_.clear();
    since_wait_.clear();
    current_ = nullptr;
  }
  Step* step = current_ ? current_ : &steps_[whole];
  if (!current_ && has_backward_ && step->first_boundary == 0 && bytes <= kMostBytes) {
    step->small = end_of_phase_ != 0 && bytes <= kSmallBytes;
    step->first_boundary = step->small && most_nodes_ != 0 ? most_nodes_ : end_of_phase_;
  }
  // Times without recipes say nothing about times with them, and the compiler took a core.
  if (std::exchange(step->compiled, compiled) != compiled) step->placement = {};
  step->placed = ns != 0 && ns < Placement::kMostNs;
  if (step->placed) step->placement.repeated(Placement::Clock::now(), crowded);
  timed_ = step->placed && step->placement.timed();
  decide(*step);  // by what followed the sights before this one
  if (++step->sights >= kMemory) {
    step->sights /= 2;
    step->waits /= 2;
  }
  if (since_wait_.size() <= kMostGraphs) since_wait_.push_back(step);
  begin();
}

void EarlyStart::begin() noexcept {
  current_ = nullptr;
  end_of_phase_ = most_nodes_ = 0;
  has_backward_ = false;
}

void EarlyStart::waited() {
  // Of many graphs handed over without a wait all but the last had time to begin.
  if (since_wait_.size() <= kMostGraphs)
    for (auto* step : since_wait_) {
      ++step->waits;
      decide(*step);
    }
  since_wait_.clear();
}

}  // namespace openhpu
