#include "graph/GraphCommand.h"

#include "ops/OpKernel.h"

namespace openhpu {

GraphCommand::Owned GraphCommand::acquire(device::Device& d) {
  GraphCommand* c = Commands::take();
  if (!c) {
    c = new GraphCommand();
    Commands::note_made();
  }
  c->device_ = &d;
  return Owned(c);
}

const char* GraphCommand::name() const {
  return failed_ ? failed_ : program ? "graph replay" : recipe ? "recipe" : "graph";
}

void GraphCommand::run() {
  const Graph& whole = program ? program->graph : graph;
  const auto& memory = program && slots.empty() ? program->slots : slots;
  const auto& values = numbers.empty() ? whole.numbers : numbers;
  device::MemoryPool::AccessScope access(device_->memory());
  if (recipe) {
    recipe->run(*device_, memory, values);
    return;
  }
  NodeRunner runner(*device_);
  try {
    runner.run(whole, memory, values);
  } catch (...) {
    const auto& node = whole.nodes[runner.failed];
    failed_ = node.entry->call->kernel->name().c_str();
    site = node.site;
    throw;
  }
}

void GraphCommand::retire() {
  graph.clear();
  program.reset();
  recipe.reset();
  slots.clear();
  numbers.clear();
  failed_ = nullptr;
  site = 0;
  Commands::give(this);
}

}  // namespace openhpu
