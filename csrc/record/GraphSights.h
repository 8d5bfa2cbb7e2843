#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <unordered_map>

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
  // A step that was handed over in parts.
  Sight in_parts(uint64_t sequence);
  // A captured graph.
  Sight captured(uint64_t program);

  // So many graphs are remembered, those seen last.
  void set_most(size_t graphs);
  void clear();

 private:
  struct Known {
    uint64_t id;
    bool in_parts;  // a sequence's: no whole graph of it has been seen
    std::list<uint64_t>::iterator recency;
  };
  Known* find(uint64_t key);
  void add(uint64_t key, uint64_t id, bool in_parts);
  Sight note(uint64_t key, bool in_parts);

  std::mutex mutex_;
  std::unordered_map<uint64_t, Known> known_;  // programs and sequences
  std::list<uint64_t> recency_;                // most recent first
  size_t most_ = 100000;
};

}  // namespace openhpu
