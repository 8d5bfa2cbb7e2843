#include "record/GraphSights.h"

#include <algorithm>

#include "observe/events.h"

namespace openhpu {

GraphSights& GraphSights::instance() {
  static auto* sights = new GraphSights();
  return *sights;
}

GraphSights::Known* GraphSights::Table::find(uint64_t key) {
  const auto it = known.find(key);
  if (it == known.end()) return nullptr;
  recency.splice(recency.begin(), recency, it->second.recency);
  return &it->second;
}

void GraphSights::Table::add(uint64_t key, uint64_t id, bool in_parts, size_t most) {
  recency.push_front(key);
  known.emplace(key, Known{id, in_parts, recency.begin()});
  while (known.size() > most) {
    known.erase(recency.back());
    recency.pop_back();
  }
}

void GraphSights::Table::clear() {
  known.clear();
  recency.clear();
}

GraphSights::Sight GraphSights::note(Sight sight) noexcept {
  if (sight.first) count(Counter::GraphsNew);
  return sight;
}

GraphSights::Sight GraphSights::whole(uint64_t program, uint64_t sequence) {
  std::lock_guard lock(mutex_);
  if (const auto* known = programs_.find(program)) return note({known->id, false});
  auto* step = sequences_.find(sequence);
  const bool first = !step || !step->in_parts;
  const uint64_t id = first ? program : step->id;
  if (step)
    step->in_parts = false;
  else
    sequences_.add(sequence, id, false, most_);
  programs_.add(program, id, false, most_);
  return note({id, first});
}

GraphSights::Sight GraphSights::in_parts(uint64_t sequence) {
  std::lock_guard lock(mutex_);
  if (const auto* step = sequences_.find(sequence)) return note({step->id, false});
  sequences_.add(sequence, sequence, true, most_);
  return note({sequence, true});
}

GraphSights::Sight GraphSights::captured(uint64_t program) {
  std::lock_guard lock(mutex_);
  if (const auto* known = programs_.find(program)) return note({known->id, false});
  programs_.add(program, program, false, most_);
  return note({program, true});
}

void GraphSights::set_most(size_t graphs) {
  std::lock_guard lock(mutex_);
  most_ = std::max<size_t>(graphs, 1);
}

void GraphSights::clear() {
  std::lock_guard lock(mutex_);
  programs_.clear();
  sequences_.clear();
}

}  // namespace openhpu
