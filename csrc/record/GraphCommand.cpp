#include "record/GraphCommand.h"

#include "observe/events.h"
#include "recipes/GraphCache.h"
#include "run/CallRunner.h"
#include "run/KernelThreads.h"
#include "run/Operator.h"
#include "torch/HPUDevice.h"

namespace openhpu {
namespace {

// The most threads of a kernel of a graph that runs node by node. The threads of a team wait for each other, so that a
// compiler on one of their cores would slow all of them down.
int threads_beside_compiler(int cores) {
  if (!GraphCache::instance().leaves_core()) return CallRunner::kUnlimited;
  count(Counter::GraphsBesideCompiler);
  return std::max(1, cores - 1);
}

}  // namespace

GraphCommand::Owned GraphCommand::acquire(device::Device& d) {
  GraphCommand* c = Commands::take();
  c->device_ = &d;
  return Owned(c);
}

const char* GraphCommand::name() const {
  if (failed_) return failed_;
  if (program) return "graph replay";
  return recipe ? "recipe" : "graph";
}

void GraphCommand::describe(device::TraceRecord& record) const {
  record.kind = device::TraceKind::Graph;
  record.operators = (program ? program->graph : graph).nodes.size();
  if (!recipe) return;
  const auto& manifest = recipe->compiled()->manifest();
  record.name = device::trace_name("recipe " + manifest.name);
  record.operators = manifest.operators;
}

bool GraphCommand::runs_anywhere() const noexcept {
  if (program && program->collectives) return false;
  if (recipe) return recipe->compiled()->manifest().threads == 1;
  if (!largest_) largest_ = std::max<size_t>(1, (program ? program->graph : graph).largest());
  return threads_for(largest_) == 1;
}

void GraphCommand::run() {
  const Graph& whole = program ? program->graph : graph;
  const auto& memory = program && slots.empty() ? program->slots : slots;
  const auto& values = numbers.empty() ? whole.numbers : numbers;
  device::MemoryPool::AccessScope access(device_->memory());
  if (recipe) {
    try {
      recipe->run(*device_, whole, memory, values);
    } catch (...) {
      if (const auto* node = recipe->take_failed()) note_failed(*node);
      for (const auto& slot : memory)  // as an operator that fails, see CallRunner
        if (slot.fresh && slot.data) std::memset(slot.data, 0, slot.nbytes);
      throw;
    }
    return;
  }
  size_t failed = 0;
  try {
    const NodeRange all{0, static_cast<uint32_t>(whole.nodes.size())};
    run_nodes(*device_, whole, all, memory, values, threads_beside_compiler(device_->cores()), failed);
  } catch (...) {
    note_failed(whole.nodes[failed]);
    throw;
  }
}

void GraphCommand::note_failed(const Graph::Node& node) {
  failed_ = node.entry->call->kernel->name().c_str();
  site = node.site;
}

void GraphCommand::retire() {
  graph.clear();
  program.reset();
  recipe.reset();
  slots.clear();
  numbers.clear();
  failed_ = nullptr;
  largest_ = 0;
  site = 0;
  Commands::give(this);
}

}  // namespace openhpu
