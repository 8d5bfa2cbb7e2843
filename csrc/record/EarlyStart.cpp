#include "record/EarlyStart.h"

#include <c10/core/GradMode.h>
#include <c10/macros/Macros.h>

// <torch/csrc/autograd/graph_task.h> declares it, and includes all of autograd.
namespace torch::autograd {
TORCH_API int get_current_graph_task_id();
}

namespace openhpu {

EarlyStart::Phase EarlyStart::phase() noexcept {
  if (torch::autograd::get_current_graph_task_id() >= 0) return Phase::Backward;
  return c10::GradMode::is_enabled() ? Phase::WithGradients : Phase::WithoutGradients;
}

bool EarlyStart::due(size_t nodes) noexcept {
  const Phase now = phase(), before = std::exchange(phase_, now);
  if (now == Phase::Backward) since_backward_ = 0;
  // A forward pass may have parts without gradients.
  const bool ended =
      now != before && (before != Phase::WithGradients || now == Phase::Backward) && nodes >= kLeastNodes;
  if (C10_LIKELY(!ended && nodes < kMostNodes)) return false;
  return small_ && waits_ >= kLeastWaits && since_backward_ <= kMostGraphs;
}

void EarlyStart::handed_over(size_t operators, size_t bytes, bool piece) noexcept {
  operators_ += operators;
  bytes_ += bytes;
  if (piece) return;
  if (since_backward_++ == 0) small_ = bytes_ <= kMostBytes * operators_;
  operators_ = bytes_ = 0;
  if (++since_wait_ > kMostGraphs) waits_ = 0;
}

void EarlyStart::waited() noexcept {
  if (since_wait_ != 0 && since_wait_ <= kMostGraphs) ++waits_;
  since_wait_ = 0;
}

}  // namespace openhpu
