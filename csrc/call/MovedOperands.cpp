#include <ATen/ops/_to_copy.h>
#include <ATen/ops/index_put_native.h>
#include <ATen/ops/masked_fill_native.h>
#include <torch/csrc/autograd/functions/tensor.h>

#include "call/OpCall.h"
#include "observe/site.h"
#include "record/Capture.h"
#include "record/Lazy.h"

namespace openhpu {
namespace {

// A call that moved operands of which gradients are wanted.
struct MovedCall {
  std::vector<at::Tensor> results;
  std::vector<std::pair<at::Tensor, at::Tensor>> moved;  // the operand, and its copy on the device
};

// Never destroyed: at the end of a thread there may be no Python left to release a tensor's object.
thread_local std::vector<MovedCall>* t_calls = nullptr;

// Between `node` and each moved operand: a copy back to the CPU.
void redirect(torch::autograd::Node& node, const MovedCall& call) {
  for (const auto& [operand, copy] : call.moved) {
    const auto old = torch::autograd::impl::gradient_edge(operand);
    // In place: set_next_edge allows no change once another node leads to this one, so that topological numbers stay
    // larger than those below. This one's stays at least as large as the copy's, which is all that a backward asks for.
    for (auto& edge : node.next_edges()) {
      if (edge != old) continue;
      auto back = c10::make_intrusive<torch::autograd::CopyBackwards>();
      back->set_next_edges({torch::autograd::Edge(), old});
      back->src_options = operand.options();
      const uint32_t input = back->add_input_metadata(copy);
      edge = {std::move(back), input};
    }
  }
}

at::Tensor moved_to(c10::Device device, const at::Tensor& t, const std::string& op) {
  auto copy = at::_to_copy(t, t.options().device(device));
  count(Counter::OperandsMoved);
  if (listening(kOperandMoved))
    emit(kOperandMoved, {{"op", op}, {"bytes", static_cast<int64_t>(t.nbytes())}}, current_site());
  return copy;
}

void keep_for_gradients(MovedCall call) {
  if (!t_calls) t_calls = new std::vector<MovedCall>();
  t_calls->push_back(std::move(call));
  return_gradients_at_next_call();
}

// PyTorch's composites copy their first operand and write into the copy: on the CPU it would be a destination.
template <class Function>
at::Tensor with_first_operand_moved(
    const char* op, const at::Tensor& self, c10::ArrayRef<at::Tensor> others, Function&& function) {
  const auto other = std::find_if(
      others.begin(), others.end(), [](const at::Tensor& t) { return t.defined() && t.device().type() == c10::kHPU; });
  if (!self.is_cpu() || other == others.end() || !lazy_mode() || current_capture(other->device().index()))
    return function(self);
  const auto copy = moved_to(other->device(), self, op);
  auto result = function(copy);
  if (c10::GradMode::is_enabled() && self.requires_grad()) keep_for_gradients({{result}, {{self, copy}}});
  return result;
}

template <class Value>
at::Tensor masked_fill(const at::Tensor& self, const at::Tensor& mask, const Value& value) {
  c10::SmallVector<at::Tensor, 2> others{mask};
  if constexpr (std::is_same_v<Value, at::Tensor>) others.push_back(value);
  return with_first_operand_moved(
      "aten::masked_fill", self, others, [&](const at::Tensor& t) { return at::native::masked_fill(t, mask, value); });
}

at::Tensor index_put(
    const at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices, const at::Tensor& values,
    bool accumulate) {
  std::vector<at::Tensor> others{values};
  for (const std::optional<at::Tensor>& index : indices) others.push_back(index.value_or(at::Tensor()));
  return with_first_operand_moved("aten::index_put", self, others, [&](const at::Tensor& t) {
    return at::native::index_put(t, indices, values, accumulate);
  });
}

}  // namespace

void return_moved_gradients() {
  if (!t_calls) return;
  std::vector<MovedCall> later;
  for (auto& call : *t_calls) {
    bool attached = false, shared = false;
    for (const auto& result : call.results) {
      shared |= result.use_count() > 1;
      if (const auto& node = result.grad_fn()) {
        attached = true;
        redirect(*node, call);
      }
    }
    // The operator may be a part of a larger one, whose node comes when that is done.
    if (!attached && shared) later.push_back(std::move(call));
  }
  if (later.empty()) {
    delete std::exchange(t_calls, nullptr);
  } else {
    *t_calls = std::move(later);
    return_gradients_at_next_call();
  }
}

bool OpCall::is_misplaced(const Operand& o) const {
  const auto d = o.tensor->device();
  if (d.type() == c10::kHPU) return false;
  const bool indexed = kernel_.traits().masks_wait && o.arg == 0;
  const bool accepted = o.tensor->dim() == 0 || (kernel_.traits().cpu_operands && !indexed);
  return o.written || d.type() != c10::kCPU || !accepted;
}

bool OpCall::may_move_operands() const {
  if (!lazy_mode() || current_capture(device_index())) return false;
  // PyTorch's composites hand their `out=` on, also as a source (fft.ihfft2): moved, it would not be written.
  if (const auto& arguments = kernel_.schema().arguments(); !arguments.empty() && arguments.back().is_out())
    return false;
  return std::none_of(operands_.begin(), operands_.end(), [&](const Operand& o) {
    return is_misplaced(o) && (o.written || o.tensor->device().type() != c10::kCPU);
  });
}

TORCH_LIBRARY_IMPL(aten, HPU, m) {
  m.impl("masked_fill.Scalar", TORCH_FN(masked_fill<at::Scalar>));
  m.impl("masked_fill.Tensor", TORCH_FN(masked_fill<at::Tensor>));
  m.impl("index_put", TORCH_FN(index_put));
}

void OpCall::move_operands_and_call() {
  MovedCall call;
  const auto moved = [&](const at::Tensor& t) {
    auto copy = moved_to(c10::Device(c10::kHPU, device_index()), t, kernel_.name());
    if (c10::GradMode::is_enabled() && t.requires_grad()) call.moved.emplace_back(t, copy);
    return copy;
  };
  for (const auto& o : operands_)
    if (o.written && o.tensor->device().type() == c10::kHPU) call.results.push_back(*o.tensor);
  c10::Stack args;
  for (size_t i = 0; i < arg_count_; ++i) {
    const bool written = kernel_.writes(i, args_);
    args.push_back(map_tensors(
        args_[i], [&](const at::Tensor& t) { return t.defined() && is_misplaced({&t, i, written}) ? moved(t) : t; }));
  }
  OpCall again(kernel_, args.data(), results_, on_stack_);
  kernel_.call(again);
  if (call.moved.empty()) return;
  if (results_) {
    const size_t returned = kernel_.schema().returns().size();
    for (size_t k = results_->size() - returned; k < results_->size(); ++k)
      for_each_tensor((*results_)[k], [&](const at::Tensor& t) {
        if (t.defined()) call.results.push_back(t);
      });
  }
  keep_for_gradients(std::move(call));
}

}  // namespace openhpu
