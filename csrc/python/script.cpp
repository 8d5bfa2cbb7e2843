// TorchScript on hpu: runs of operators in a traced or scripted graph become one node, which
// `openhpu.capture.torchscript` captures and replays.
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/pass_manager.h>
#include <torch/csrc/jit/passes/utils/subgraph_utils.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/jit/runtime/custom_operator.h>
#include <torch/csrc/jit/runtime/interpreter.h>
#include <torch/csrc/jit/runtime/profiling_record.h>

#include "python/bindings.h"
#include "record/Capture.h"
#include "record/Lazy.h"

namespace openhpu {
namespace {

using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Stack;
namespace attr = torch::jit::attr;
namespace prim = torch::jit::prim;

const auto kGroup = c10::Symbol::fromQualString("openhpu::ScriptGraph");

// Whether all tensors of which the profiling runs know the device were on hpu.
bool is_for_hpu(const Graph& graph) {
  bool found = false;
  for (const Node* node : graph.nodes()) {
    if (node->kind() != prim::profile || !node->hasAttribute(attr::profiled_type)) continue;
    const auto type = node->ty(attr::profiled_type)->cast<c10::TensorType>();
    if (!type || !type->device()) continue;
    if (type->device()->type() != c10::kHPU) return false;
    found = true;
  }
  return found;
}

bool writes(const Node& node) { return node.maybeSchema() && node.schema().is_mutable(); }

bool is_operator(const Node& node) {
  if (!node.blocks().empty() || node.kind() == kGroup) return false;
  if (node.kind() == prim::ListConstruct || node.kind() == prim::ListUnpack) return true;
  // An operator of the script may have Python code, which reads what changes. One without results that writes nothing
  // is called for its effect.
  return node.kind().is_aten() && node.maybeSchema() && (writes(node) || !node.outputs().empty());
}

// Reads of attributes and constants may stay where they are: operators of a run do not depend on their order.
bool is_read(const Node& node) { return node.kind() == prim::GetAttr || node.kind() == prim::Constant; }

void group_run(const std::vector<Node*>& run) {
  constexpr size_t kFewest = 2;
  if (run.size() < kFewest) return;
  Node* group = torch::jit::SubgraphUtils::createSingletonSubgraph(run.back(), kGroup);
  for (size_t i = run.size() - 1; i-- > 0;) torch::jit::SubgraphUtils::mergeNodeIntoSubgraph(run[i], group);
}

void group_operators(std::shared_ptr<Graph>& graph) {
  if (!is_for_hpu(*graph)) return;
  torch::jit::ProfilingRecord::removeProfilingNodes(graph->block());
  std::vector<std::vector<Node*>> runs(1);
  for (Node* node : graph->nodes()) {
    if (is_operator(*node))
      runs.back().push_back(node);
    else if (!is_read(*node))
      runs.emplace_back();
  }
  for (const auto& run : runs) group_run(run);
}

// A group at run time.
class ScriptGraph {
 public:
  explicit ScriptGraph(const Node* node) : graph_(node->g(attr::Subgraph)), code_(graph_, "openhpu::ScriptGraph") {
    for (const Node* n : graph_->nodes()) mutates_ = mutates_ || writes(*n);
    for (const auto* v : graph_->outputs())
      tensors_only_ = tensors_only_ && v->type()->kind() == c10::TypeKind::TensorType;
  }
  ~ScriptGraph() {
    if (!captures_) return;
    py::gil_scoped_acquire gil;
    captures_ = py::object();
  }
  ScriptGraph(const ScriptGraph&) = delete;
  ScriptGraph& operator=(const ScriptGraph&) = delete;

  void run(Stack& stack) {
    if (!tensors_only_ || lazy_mode() || !holds(stack)) return interpret(stack);
    py::gil_scoped_acquire gil;
    if (!captures_) {
      auto plain = py::cpp_function([this](const py::list& args) { return call(args); });
      captures_ = py::module_::import("openhpu.capture.torchscript").attr("Captures")(plain, mutates_);
    }
    py::list args;
    for (const auto& value : torch::jit::last(stack, graph_->inputs().size()))
      args.append(torch::jit::toPyObject(value));
    const py::object results = captures_(args);
    torch::jit::drop(stack, graph_->inputs().size());
    for (const auto& result : results) stack.emplace_back(py::cast<at::Tensor>(result));
  }

 private:
  void interpret(Stack& stack) const { torch::jit::InterpreterState(code_).run(stack); }

  // Whether a capture may hold a call with these arguments.
  bool holds(const Stack& stack) const {
    const c10::Device here(c10::kHPU, current_device());
    bool any = false;
    for (const auto& value : torch::jit::last(stack, graph_->inputs().size())) {
      if (value.isTensor()) {
        const auto& t = value.toTensor();
        if (!t.defined() || t.device() != here || t.layout() != c10::kStrided || t.is_complex() || t.is_neg())
          return false;
        if (at::GradMode::is_enabled() && t.requires_grad()) return false;  // autograd has to see the operators
        any = true;
      } else if (!value.isNone() && !value.isScalar() && !value.isString() && !value.isDevice()) {
        return false;
      }
    }
    return any && !current_capture(c10::DeviceIndex{-1});
  }

  py::list call(const py::list& args) const {
    Stack stack;
    for (size_t i = 0; i < args.size(); ++i)
      stack.push_back(torch::jit::toIValue(args[i], graph_->inputs()[i]->type()));
    {
      py::gil_scoped_release no_gil;
      interpret(stack);
    }
    py::list out;
    for (auto& value : stack) out.append(torch::jit::toPyObject(std::move(value)));
    return out;
  }

  std::shared_ptr<Graph> graph_;
  torch::jit::Code code_;
  bool mutates_ = false, tensors_only_ = true;
  py::object captures_;
};

}  // namespace

void register_script_graphs() {
  static torch::jit::RegisterOperators operators({torch::jit::Operator(
      kGroup,
      [](const Node* node) -> torch::jit::Operation {
        auto group = std::make_shared<ScriptGraph>(node);
        return [group](Stack& stack) { group->run(stack); };
      },
      c10::AliasAnalysisKind::CONSERVATIVE)});
  torch::jit::registerPrePass(group_operators);
}

}  // namespace openhpu
