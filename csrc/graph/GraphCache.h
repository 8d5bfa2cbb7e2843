#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/Graph.h"
#include "graph/Recipe.h"
#include "graph/Recompilation.h"

namespace openhpu {

enum class CompilePolicy { Background, Sync, Off };

// A graph to compile: a copy of what was recorded, and which numbers are to be inputs of the recipe.
struct CompileRequest {
  uint64_t id = 0;
  Graph graph;
  std::vector<bool> variable;  // by word of graph.numbers
};

// Graphs seen so far, by program, and what became of them: seen once (run node by node), compiling, ready, failed.
// Thread-safe. Requests go to whoever calls `next_request` (the compiler's service, in Python).
class GraphCache {
 public:
  static GraphCache& instance();

  void configure(CompilePolicy policy, size_t max_graphs);
  CompilePolicy policy() const noexcept { return policy_; }

  // The recipe to run a whole graph with; null: run it node by node. Asks for a compilation when a graph recurs, or at
  // first sight under CompilePolicy::Sync; then, and under deterministic algorithms, it waits for the result, so
  // that what runs never depends on how fast the compiler is.
  std::shared_ptr<Recipe> recipe_for(const Graph& graph, uint64_t hash);

  // The same for a captured graph, which will be replayed: its first sight counts as its second, and the numbers of
  // which `variable` says that they will change are arguments of the recipe from the start.
  std::shared_ptr<Recipe> recipe_for_captured(
      const Graph& graph, uint64_t hash, const std::vector<bool>& variable);
  // Rises whenever a recipe becomes ready.
  uint64_t version() const noexcept { return version_.load(std::memory_order_acquire); }

  // The service's side. `next_request` blocks until there is one; false once `close` was called.
  bool next_request(CompileRequest& out);
  void succeed(uint64_t id, std::shared_ptr<Recipe> recipe);
  void fail(uint64_t id, std::string message);
  void close();
  // Blocks until nothing waits to be compiled. Returns false at the deadline (seconds; negative: none).
  bool wait_idle(double seconds);
  std::vector<std::shared_ptr<Recipe>> recipes() const;
  // Compilations of programs that had been compiled for other sizes, numbers, ... before, in order.
  std::vector<Recompilation> recompilations() const;
  size_t size() const;
  void clear();

 private:
  enum class State { Seen, Compiling, Ready, Failed };
  struct Entry {
    uint64_t id = 0;
    uint64_t hash = 0;
    std::vector<uint64_t> words;
    std::vector<uint64_t> numbers;
    std::vector<bool> variable;
    uint64_t sights = 0;
    State state = State::Seen;
    std::shared_ptr<Recipe> recipe;
    std::list<uint64_t>::iterator recency;
    std::shared_ptr<const Graph> compiled;  // as it was when it was last sent to the compiler
  };
  std::shared_ptr<Recipe> look_up(const Graph& graph, uint64_t hash, const std::vector<bool>* variable);
  std::shared_ptr<Recipe> decide(
      const Graph& graph, uint64_t hash, const std::vector<bool>* variable, std::unique_lock<std::mutex>& lock);
  void request(Entry& entry, const Graph& graph);
  void wait_for(std::unique_lock<std::mutex>& lock, uint64_t id);
  Entry* find(uint64_t hash, const std::vector<uint64_t>& words);
  void evict();

  mutable std::mutex mutex_;
  std::condition_variable requests_changed_, states_changed_;
  std::unordered_map<uint64_t, std::unique_ptr<Entry>> entries_;  // by id
  std::unordered_multimap<uint64_t, uint64_t> ids_;               // hash -> id
  std::list<uint64_t> recency_;                                   // most recent first
  std::deque<CompileRequest> requests_;
  std::unordered_map<uint64_t, std::shared_ptr<const Graph>> latest_;  // by shape_free_hash: the last one compiled
  std::vector<Recompilation> recompilations_;
  size_t compiling_ = 0;
  uint64_t next_id_ = 1;
  std::atomic<uint64_t> version_{1};
  bool closed_ = false;
  CompilePolicy policy_ = CompilePolicy::Off;
  size_t max_graphs_ = 100000;
};

}  // namespace openhpu
