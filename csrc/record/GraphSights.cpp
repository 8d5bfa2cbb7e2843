#include "record/GraphSights.h"

#include <algorithm>

#include "observe/events.h"

namespace openhpu {

GraphSights& GraphSights::instance() {
  static auto* sights = new GraphSights();
  return *sights;
}

GraphSights::Known* GraphSights::find(uint64_t key) {
  const auto it = known_.find(key);
  if (it == known_.end()) return nullptr;
  recency_.splice(recency_.begin(), recency_, it->second.recency);
  return &it->second;
}

void GraphSights::add(uint64_t key, uint64_t id, bool in_parts) {
  recency_.push_front(key);
  known_.emplace(key, Known{id, in_parts, recency_.begin()});
  while (known_.size() > 2 * most_) {  // a graph is a program and a sequence
    known_.erase(recency_.back());
    recency_.pop_back();
  }
}

GraphSights::Sight GraphSights::note(uint64_t key, bool in_parts) {
  std::lock_guard lock(mutex_);
  if (const auto* known = find(key)) return {known->id, false};
  add(key, key, in_parts);
  count(Counter::GraphsNew);
  return {key, true};
}

GraphSights::Sight GraphSights::whole(uint64_t program, uint64_t sequence) {
  std::lock_guard lock(mutex_);
  auto* step = find(sequence);
  if (const auto* known = find(program)) return {known->id, false};
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

GraphSights::Sight GraphSights::in_parts(uint64_t sequence) { return note(sequence, true); }

GraphSights::Sight GraphSights::captured(uint64_t program) { return note(program, false); }

void GraphSights::set_most(size_t graphs) {
  std::lock_guard lock(mutex_);
  most_ = std::max<size_t>(graphs, 1);
}

void GraphSights::clear() {
  std::lock_guard lock(mutex_);
  known_.clear();
  recency_.clear();
}

}  // namespace openhpu
