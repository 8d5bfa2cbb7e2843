#include "record/GraphSights.h"

#include "observe/events.h"

namespace openhpu {

GraphSights& GraphSights::instance() {
  static auto* sights = new GraphSights();
  return *sights;
}

GraphSights::Sight GraphSights::note(uint64_t key, bool in_parts) {
  std::lock_guard lock(mutex_);
  if (const auto known = known_->Get(key)) return {known->id, false};
  add(key, key, in_parts);
  count(Counter::GraphsNew);
  return {key, true};
}

GraphSights::Sight GraphSights::whole(uint64_t program, uint64_t sequence) {
  std::lock_guard lock(mutex_);
  const auto step = known_->Get(sequence);
  if (const auto known = known_->Get(program)) return {known->id, false};
  const bool first = !step || !step->in_parts;
  const uint64_t id = first ? program : step->id;
  if (step)
    step->in_parts = false;
  else
    add(sequence, id, false);
  add(program, id, false);
  if (first) count(Counter::GraphsNew);
  return {id, first};
}

void GraphSights::set_most(size_t graphs) {
  std::lock_guard lock(mutex_);
  if (std::exchange(most_, graphs) != graphs) known_ = std::make_unique<Graphs>(2 * std::max<size_t>(graphs, 1));
}

void GraphSights::clear() {
  std::lock_guard lock(mutex_);
  known_->Clear();
}

}  // namespace openhpu
