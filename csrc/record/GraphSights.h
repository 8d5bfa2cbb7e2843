#pragma once

#include <torch/csrc/lazy/core/cache.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace openhpu {

// The graphs that a process has seen, as a Gaudi counts them. A Gaudi compiles a graph at its first repetition and
// finds it from then on. The compilations of this project are counted by GraphCache.
//
// A step is one graph, even if it ran in parts, because an operator was new or because execution began early. Then it
// is known by the sequence of its calls, and the same step as a whole is not new.
class GraphSights {
 public:
  static GraphSights& instance();

  struct Sight {
    uint64_t id = 0;
    bool first = false;
  };
  // A graph that was handed over as a whole. `program`: hash of its words; `sequence`: of its calls.
  Sight whole(uint64_t program, uint64_t sequence);
  // A captured graph, or (`in_parts`) the sequence of a step that was handed over in parts.
  Sight note(uint64_t key, bool in_parts);

  // So many graphs are remembered, those seen last. Another number forgets all.
  void set_most(size_t graphs);
  void clear();

 private:
  struct Known {
    uint64_t id;
    bool in_parts;  // a sequence's: no whole graph of it has been seen
  };
  using Graphs = torch::lazy::Cache<uint64_t, Known>;
  void add(uint64_t key, uint64_t id, bool in_parts) { known_->Add(key, std::make_shared<Known>(id, in_parts)); }

  std::mutex mutex_;
  size_t most_ = 100000;
  std::unique_ptr<Graphs> known_ = std::make_unique<Graphs>(2 * most_);  // a graph is a program and a sequence
};

}  // namespace openhpu
