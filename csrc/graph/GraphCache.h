#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/wait_hook.h"
#include "graph/Graph.h"
#include "graph/Recipe.h"
#include "graph/Recompilation.h"
#include "graph/Symbols.h"

namespace openhpu {

enum class CompilePolicy { Background, Sync, Off };

// A graph to compile: a copy of what was recorded, which numbers are to be inputs of the recipe, and, for a recipe that
// serves many sizes, the graph's integers as formulas.
struct CompileRequest {
  uint64_t id = 0;
  Graph graph;
  std::vector<bool> variable;  // by word of graph.numbers
  std::vector<Formula> formulas;
  std::vector<int64_t> symbols;  // values in this graph
  std::vector<std::pair<uint32_t, std::string>> constants;  // inputs (slots) that the recipe holds, with their contents
  std::chrono::steady_clock::time_point not_before;         // unless somebody waits for recipes
};

// Of a wait for the compiler: who waits for what, and how long by now; `over`: it has ended.
struct WaitNotice {
  uint64_t wait = 0;
  size_t operators = 0;
  uint32_t site = 0;
  size_t graphs = 1;  // that are waited for; operators and site are those of one of them
  double seconds = 0;
  bool over = false;
  bool given_up = false;  // it has ended without an answer, as the compiler took too long
};

// What the compiler has been asked for and has not answered.
struct CompileProgress {
  size_t graphs = 0;
  size_t operators = 0;                  // of the largest
  std::chrono::milliseconds longest{0};  // since the first of them was asked for
};

// Graphs seen so far, by program, and what became of them: seen once (run node by node), compiling, ready, failed.
// Programs that differ in sizes only are a family; from its second member on it gets one recipe for all sizes.
// Thread-safe. Requests go to whoever calls `next_request` (the compiler's service, in Python).
class GraphCache {
 public:
  static GraphCache& instance();

  enum class State { Seen, Compiling, Ready, Failed };
  // Something that was, or may be, compiled: one graph, or a family with sizes as symbols.
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
    // What the compiler said counts: at once; or, under deterministic algorithms, at a fixed repetition; or, in a group of
    // ranks, once they agree; or since the script waited for recipes. Until then the graph runs node by node.
    bool settled = false;
    size_t operators = 0;
    uint32_t site = 0;
    uint64_t compiling_since = 0;  // for traces
    bool given_up = false;         // its answer was waited for as long as may be, and is not waited for again
    std::chrono::steady_clock::time_point asked;
    std::shared_ptr<CompiledGraph> result;
    std::shared_ptr<const Graph> compiled;  // nodes and numbers, as it was when it was last sent to the compiler
  };

  // One sight of a graph.
  struct Sight {
    // Said by who asks. That it recurs is known at first sight (a captured graph, which will be replayed).
    bool recurs = false;
    // It goes on with a step of which an earlier piece was compiled anew: it has no cause of its own.
    bool same_cause = false;
    // The answer. This repetition counts, so that it is to be asked again at the next one, whatever `version` says.
    bool again = false;
    bool recompiled = false;
  };

  // What bounds it: graphs that are remembered, libraries of theirs that are loaded, and seconds of a wait for a recipe.
  struct Limits {
    size_t graphs = 100000;
    size_t libraries = 5000;
    double wait_s = 1800;
  };
  void configure(CompilePolicy policy, const Limits& limits);
  CompilePolicy policy() const noexcept { return policy_; }
  // A process group of several ranks came (1) or went (-1). While there is one, a recipe takes over when the ranks agree
  // that all of them have it: `answered` is the number of requests up to which the compiler has answered all, of this rank
  // in the order of its program; `agree` tells what all ranks have, at the same point of each rank's program.
  void add_group_of_ranks(int change);
  uint64_t answered() const;
  void agree(uint64_t answered);

  // The recipe to run a whole graph with; null: run it node by node. Asks for a compilation when a graph recurs, or at
  // first sight under CompilePolicy::Sync; then it waits for the result. Under deterministic algorithms a recipe takes
  // over at a fixed repetition of the graph, and is waited for there: so what runs never depends on how fast the
  // compiler is. In a group of ranks it takes over when they agree (`agree`). An interrupt (Ctrl-C) or the limit of a wait ends it: then, too, the graph runs node by node. After a wait
  // that came to its limit nothing is waited for until the compiler answers something.
  std::shared_ptr<Recipe> recipe_for(const Graph& graph, uint64_t hash, Sight& sight);
  // Asks for a recipe for the caller alone, in which contents of some inputs are constants. Not to be called when the
  // policy is Off.
  std::shared_ptr<Compilation> compile_with(
      const Graph& graph, std::vector<std::pair<uint32_t, std::string>> constants);
  // Its recipe; null while there is none, `failed` when there will be none. `again`: as above.
  std::shared_ptr<Recipe> recipe_of(const std::shared_ptr<Compilation>& compilation, bool& failed, bool& again);
  // Rises whenever a compilation ends.
  uint64_t version() const noexcept { return version_.load(std::memory_order_acquire); }

  // The service's side. `next_request` blocks until there is one whose time has come; false once `close` was called.
  bool next_request(CompileRequest& out);
  void succeed(uint64_t id, std::shared_ptr<CompiledGraph> compiled);
  // Before a library is loaded: graphs that were not used for the longest go, until there is room for it. Throws where
  // what others hold (captured graphs) takes all of the room.
  void make_room();
  void fail(uint64_t id, std::string message);
  void close();
  // Blocks until nothing waits to be compiled; the recipes that there are take over then. Returns false at the deadline (seconds; negative: none). Throws what a
  // signal's handler throws.
  bool wait_idle(double seconds);
  // Whether there is a request that nobody has taken, or with which its taker is not done: it has not asked for the next.
  bool has_requests() const noexcept { return untaken_.load(std::memory_order_acquire); }
  // Blocks until there is none. Returns false at the deadline.
  bool wait_taken(double seconds);
  // What somebody waits for now: these come first.
  std::vector<uint64_t> awaited() const;
  // Blocks until some wait has lasted one of these numbers of seconds (beyond the last: a multiple of it), or one that
  // was told of has ended; false once `close` was called.
  bool next_notice(const std::vector<double>& after, WaitNotice& out);
  CompileProgress progress() const;
  std::vector<std::shared_ptr<const CompiledGraph>> recipes() const;
  // Compilations of programs that had been compiled for other sizes, numbers, ... before, in order: the last ones. The
  // counter `recompilations` is of all.
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
  static void trace_compilation(const Compilation& compilation, const char* end);
  void send(const std::shared_ptr<Compilation>& compilation, CompileRequest request);
  std::shared_ptr<const Graph>& latest_like(const Graph& graph);
  struct Wait {
    WaitNotice notice;
    uint64_t id = 0;  // of the compilation; 0: all
    std::chrono::steady_clock::time_point since;
    size_t told = 0;
  };
  enum class Waited { Done, Interrupted, TooLong };
  template <class Done>
  Waited wait_until(
      Lock& lock, const device::BlockingWait& waiting, device::OnInterrupt what, Wait wait, double seconds, Done&& done);
  void wait_for(Lock& lock, Compilation& compilation);
  std::shared_ptr<Entry> find(uint64_t hash, const std::vector<uint64_t>& words);
  void evict();
  void drop_oldest();

  mutable std::mutex mutex_;
  std::condition_variable requests_changed_, states_changed_, waits_changed_;
  std::unordered_multimap<uint64_t, std::shared_ptr<Entry>> entries_;  // by hash
  std::list<std::shared_ptr<Entry>> recency_;                          // most recent first
  std::unordered_multimap<uint64_t, std::weak_ptr<Family>> families_;  // by hash of the structure
  std::unordered_map<uint64_t, std::shared_ptr<Compilation>> open_;    // being compiled, by id
  std::deque<CompileRequest> requests_;
  // By shape_free_hash: nodes and numbers of the last one compiled. Of so many programs, the most recent ones.
  static constexpr size_t kMostLatest = 256;
  struct Latest {
    std::shared_ptr<const Graph> graph;
    uint64_t used = 0;
  };
  std::unordered_map<uint64_t, Latest> latest_;
  uint64_t latest_used_ = 0;
  std::deque<Recompilation> recompilations_;
  uint64_t recompiled_ = 0;
  std::vector<std::weak_ptr<Compilation>> private_;  // of compile_with
  uint64_t next_id_ = 1;
  uint64_t requested_ = 0;
  int groups_of_ranks_ = 0;
  uint64_t agreed_ = 0, agreements_ = 0;
  std::atomic<uint64_t> version_{1};
  std::atomic<bool> untaken_{false};
  bool closed_ = false;
  std::list<Wait> waits_;           // of threads, for recipes
  std::vector<WaitNotice> ended_;   // of these, to be told
  uint64_t next_wait_ = 1;
  CompilePolicy policy_ = CompilePolicy::Off;
  Limits limits_;
  bool given_up_ = false;  // a wait came to its limit, and nothing was answered since
};

}  // namespace openhpu
