#pragma once

#include <torch/csrc/lazy/core/cache.h>

#include <list>
#include <unordered_map>

#include "device/blocking_wait.h"
#include "recipes/Graph.h"
#include "recipes/Recipe.h"
#include "recipes/Recompilation.h"
#include "recipes/Symbols.h"

namespace openhpu {

enum class CompilePolicy { Background, Sync, Off };

// A graph to compile: a copy of the recording, the numbers that are to be arguments of the recipe, and, for a recipe of
// many sizes, the graph's integers as formulas.
struct CompileRequest {
  uint64_t id = 0;
  Graph graph;
  std::vector<bool> variable;  // by word of graph.numbers
  std::vector<Formula> formulas;
  std::vector<int64_t> symbols;                             // values in this graph
  std::vector<std::pair<uint32_t, std::string>> constants;  // inputs (slots) that the recipe holds, with their contents
  std::chrono::steady_clock::time_point not_before;         // unless somebody waits for recipes
};

// A thread's wait for the compiler: its graph and its duration so far. `over`: it has ended.
struct CompilerWait {
  uint64_t id = 0;  // of the compilation; 0: all
  size_t operators = 0;
  uint32_t site = 0;
  size_t graphs = 1;  // that are waited for; operators and site are those of one of them
  uint64_t wait = 0;  // its number
  std::chrono::steady_clock::time_point since{};
  size_t told = 0;
  double seconds = 0;
  bool over = false;
  bool given_up = false;  // it has ended without an answer, as the compiler took too long
};

// Graphs seen so far, by program, and their state: seen once (run node by node), compiling, ready, failed. Programs
// that differ only in sizes are a family. From its second member on a family gets one recipe for all sizes.
// Thread-safe. The service of the compiler, in Python, takes requests with `next_request`.
class GraphCache {
 public:
  using Clock = std::chrono::steady_clock;

  static GraphCache& instance();

  enum class State { Seen, Compiling, Ready, Failed };
  // A unit of compilation: one graph, or a family with sizes as symbols.
  struct Compilation {
    uint64_t id = 0;
    State state = State::Seen;
    std::vector<uint64_t> numbers;  // as they were at first
    std::vector<bool> variable;     // which have been seen to change
    std::vector<Formula> formulas;  // of a family's integers
    uint64_t sights = 0;            // a family's: of all its members
    uint64_t requested_at = 0;      // the sighting
    size_t requests = 0;
    uint64_t request = 0;                    // the last one, among those of all graphs
    uint64_t agreements = 0, agreed_at = 0;  // of ranks, as last seen here, and the sighting
    // Whether the answer of the compiler is used. Usually it is used at once. Under deterministic algorithms it is used
    // at a fixed repetition, in a group of ranks when all ranks agree, or after the script waited for recipes. Until
    // then the graph runs node by node.
    bool settled = false;
    size_t operators = 0;
    uint32_t site = 0;
    uint64_t compiling_since = 0;  // for traces
    bool given_up = false;         // its answer was waited for as long as may be, and is not waited for again
    Clock::time_point asked;
    std::shared_ptr<RecipeLibrary> result;
    std::shared_ptr<const Graph> compiled;  // nodes and numbers, as it was when it was last sent to the compiler
  };

  // One sight of a graph.
  struct Sight {
    // Set by the caller. It is known at the first repetition that the graph recurs (a captured graph, which will be
    // replayed).
    bool recurs = false;
    // An earlier piece of the same step was compiled anew. So this recompilation has no cause of its own.
    bool same_cause = false;
    // Slots with sizes that depend on values, and the operators (SizeOrigin); the last such operator before the
    // graph. For the description of a recompilation.
    std::vector<std::pair<uint32_t, uint32_t>> sized{};
    uint32_t sized_before = 0;
    // Part of the answer. This repetition counts, so the caller must ask again at the next one, even if `version` is
    // the same.
    bool again = false;
    bool recompiled = false;
  };

  // Bounds: graphs that are remembered, their loaded libraries, and the seconds of a wait for a recipe.
  struct Limits {
    size_t graphs = 100000;
    size_t libraries = 5000;
    double wait_s = 1800;
    double compiler_idles_s = 0;  // how long the compiler gets idle time only, see `leaves_core`
  };
  void configure(CompilePolicy policy, const Limits& limits);
  CompilePolicy policy() const noexcept { return policy_; }
  // A process group of several ranks was created (1) or destroyed (-1). While one exists, a recipe takes over when the
  // ranks agree that all of them have it. `answered` is the number of requests up to which the compiler has answered
  // all. It counts this rank's requests in the order of its program. `agree` receives the smallest such number of all
  // ranks, at the same point of each rank's program.
  void add_group_of_ranks(int change);
  uint64_t answered() const;
  void agree(uint64_t answered);

  // Returns the recipe for a whole graph, or null to run it node by node. It asks for a compilation when a graph
  // recurs. Under CompilePolicy::Sync it asks at the first repetition and waits for the result. Under deterministic
  // algorithms a recipe takes over at a fixed repetition, and the caller waits for it there. So the choice never
  // depends on the speed of the compiler. In a group of ranks a recipe takes over when they agree (`agree`). An
  // interrupt (Ctrl-C) or the limit of a wait ends the wait, and the graph runs node by node. After a wait that reached
  // its limit, no graph waits until the compiler answers again.
  std::shared_ptr<Recipe> recipe_for(const Graph& graph, uint64_t hash, Sight& sight);
  // Asks for a recipe for the caller alone, in which the contents of some inputs are constants. Do not call it when the
  // policy is Off.
  std::shared_ptr<Compilation> compile_with(
      const Graph& graph, std::vector<std::pair<uint32_t, std::string>> constants);
  // Its recipe; null while there is none, `failed` when there will be none. `again`: as above.
  std::shared_ptr<Recipe> recipe_of(const std::shared_ptr<Compilation>& compilation, bool& failed, bool& again);
  // Whether a graph that runs now should leave one core to the compiler: once graphs are compiled for longer than
  // `compiler_idles_s`, but never where results may not depend on the compiler's speed.
  bool leaves_core() const;
  // Rises whenever a compilation ends.
  uint64_t version() const noexcept { return version_.load(std::memory_order_acquire); }

  // For the service. `next_request` blocks until there is a request whose time has come. It returns false after
  // `close`.
  bool next_request(CompileRequest& out);
  // `compiled`: null where it failed.
  void answer(uint64_t id, std::shared_ptr<RecipeLibrary> compiled);
  // Called before so many libraries are loaded. It drops the graphs that were unused for longest, until there is room.
  // It throws if the libraries of other holders (captured graphs) take all of the room.
  void make_room(size_t libraries = 1);
  void close();
  // Blocks until no graph waits to be compiled. The finished recipes take over then. Returns false at the deadline
  // (seconds; negative: none). Throws an exception of a signal's handler.
  bool wait_idle(double seconds);
  // Whether there is a request that was not taken, or whose taker is not done. A taker is done when it asks for the
  // next request.
  bool has_requests() const noexcept { return untaken_.load(std::memory_order_acquire); }
  // Blocks until there is none. Returns false at the deadline.
  bool wait_taken(double seconds);
  // The requests that a thread waits for now. They come first.
  std::vector<uint64_t> awaited() const;
  // Whether a thread waits for recipes, or will: where the program alone decides when a recipe takes over.
  bool in_a_hurry() const;
  // Blocks until a wait has lasted one of these numbers of seconds (after the last: a multiple of it), or until a wait
  // that was reported has ended. Returns false after `close`.
  bool next_notice(const std::vector<double>& after, CompilerWait& out);
  // Of the requests that the compiler has not answered: their number, the operators of the largest, and the
  // milliseconds since the first of them was asked for.
  std::tuple<size_t, size_t, int64_t> progress() const;
  std::vector<std::shared_ptr<const RecipeLibrary>> recipes() const;
  // The last recompilations, in order: compilations of programs that had been compiled for other sizes or numbers. The
  // counter `recompilations` counts all.
  static constexpr size_t kMostRecompilations = 1024;
  std::vector<Recompilation> recompilations() const;
  size_t size() const;
  void clear();

 private:
  struct Family {
    std::vector<uint64_t> structure;
    std::vector<std::vector<int64_t>> recordings;  // integers of members that no formulas in use cover
    std::optional<SymbolicSizes> sizes;
    std::shared_ptr<Compilation> symbolic;  // together with `sizes`
    size_t attempts = 0;
  };
  struct Entry {
    uint64_t hash = 0;
    std::vector<uint64_t> words;
    std::shared_ptr<Compilation> compilation;  // its own, or the family's
    std::vector<int64_t> symbols;              // the family's: values for this graph
    std::shared_ptr<Recipe> recipe;            // bound to this graph
    std::shared_ptr<Family> family;
    std::list<std::shared_ptr<Entry>>::iterator recency;
  };
  using Lock = std::unique_lock<std::mutex>;
  std::shared_ptr<Recipe> decide(const Graph& graph, uint64_t hash, Sight& sight, Lock& lock);
  // Whether the program alone decides when a recipe takes over.
  bool by_program() const;
  bool settle(Lock& lock, Compilation& compilation);
  std::shared_ptr<Entry> enter(const Graph& graph, uint64_t hash);
  void join_family(Entry& entry, const Graph& graph);
  std::shared_ptr<Compilation> new_compilation(const Graph& graph);
  void request(const Entry& entry, const Graph& graph, Sight& sight);
  void send(const std::shared_ptr<Compilation>& compilation, CompileRequest request);
  template <class Done>
  device::Waited wait_until(
      Lock& lock, const device::BlockingWait& waiting, device::OnInterrupt what, CompilerWait wait, double seconds,
      Done&& done);
  void wait_for(Lock& lock, Compilation& compilation);
  std::shared_ptr<Entry> find(uint64_t hash, const std::vector<uint64_t>& words);
  void drop_oldest();

  mutable std::mutex mutex_;
  std::condition_variable requests_changed_, states_changed_, waits_changed_;
  std::unordered_multimap<uint64_t, std::shared_ptr<Entry>> entries_;  // by hash
  std::list<std::shared_ptr<Entry>> recency_;                          // most recent first
  std::unordered_multimap<uint64_t, std::weak_ptr<Family>> families_;  // by hash of the structure
  std::unordered_map<uint64_t, std::shared_ptr<Compilation>> open_;    // being compiled, by id
  std::deque<CompileRequest> requests_;
  // By shape_free_hash: nodes and numbers of the last one compiled. Of so many programs, the most recent ones.
  torch::lazy::Cache<uint64_t, const Graph> latest_{256};
  std::deque<Recompilation> recompilations_;
  uint64_t recompiled_ = 0;
  std::vector<std::weak_ptr<Compilation>> private_;  // of compile_with
  uint64_t next_id_ = 1;
  uint64_t requested_ = 0;
  std::atomic<int> groups_of_ranks_{0};
  uint64_t agreed_ = 0, agreements_ = 0;
  std::atomic<uint64_t> version_{1};
  std::atomic<bool> untaken_{false};
  std::atomic<Clock::time_point> leaves_core_from_{Clock::time_point::max()};  // max: open_ is empty
  bool closed_ = false;
  std::list<CompilerWait> waits_;
  std::vector<CompilerWait> ended_;  // of these, to be told
  uint64_t next_wait_ = 1;
  CompilePolicy policy_ = CompilePolicy::Off;
  Limits limits_;
  bool given_up_ = false;  // a wait came to its limit, and nothing was answered since
};

}  // namespace openhpu
