#pragma once

#include "device/device.h"
#include "device/blocking_wait.h"
#include "recipes/Graph.h"
#include "recipes/GraphCache.h"
#include "record/EarlyStart.h"
#include "torch/HPUAllocator.h"
#include "torch/HPUDevice.h"

// Lazy mode: operators are recorded into the device's graph and run at the next step, or where a script needs a value.
// Storages get their memory when the graph is flushed, if they are still alive then.
namespace openhpu {

class Recipe;

inline std::atomic<bool> g_lazy{false};
inline bool lazy_mode() noexcept { return g_lazy.load(std::memory_order_relaxed); }
// Graphs are flushed after so many operators (PT_HPU_MAX_COMPOUND_OP_SIZE).
void set_max_graph_size(size_t operators);

// Throws c10::OutOfMemoryError for a size that the device can never have.
void check_capacity(c10::DeviceIndex index, size_t nbytes);

class Capture;

// While true, this thread runs an operator that learns its metadata. A graph that is flushed meanwhile is only a piece
// and is not compiled.
inline constinit thread_local bool t_learning = false;

// The graph being recorded for one device. Several threads may record (a script's, autograd's).
class Recorder {
 public:
  static Recorder& of(device::Device& d);
  static Recorder* of_if_any(int pool);  // null: nothing was recorded for the device

  explicit Recorder(device::Device& d) : device_(d) {}

  // Held while an operator is recorded.
  struct Lock : std::unique_lock<std::recursive_timed_mutex> {
    explicit Lock(Recorder& r) : unique_lock(device::lock_patiently(r.mutex_)) {}
  };

  // Under the lock: the slot of a storage's memory, entered if need be.
  uint32_t slot_of(HPUMemory& memory) {
    if (memory.graph.load(std::memory_order_relaxed) == number_) return memory.slot;
    return enter(memory);
  }
  // The same for an operator that writes to it, after `make_way`, which may hand over the graph that made it.
  uint32_t slot_to_write(HPUMemory& memory) {
    const uint32_t slot = slot_of(memory);
    memory.begin_write();
    members_[slot].written = true;
    return slot;
  }
  // Under the lock: a new storage, made by the node that is being recorded.
  c10::Storage fresh(c10::DeviceIndex index, size_t nbytes, uint32_t& slot);
  // Under the lock, before the call changes any state. A graph must end before this call if it has its maximal size or
  // if the call belongs to another graph. Throws c10::OutOfMemoryError if that graph could not be handed over. Then the
  // call is not recorded.
  void make_way() {
    if (C10_UNLIKELY(capture_ != nullptr)) choose_capture();
    if (C10_UNLIKELY(overdue_)) flush_locked();
    if (C10_UNLIKELY(early_.due(graph_.nodes.size()))) start_early();
  }
  // An operator ran whose results' sizes depend on values (SizeOrigin).
  void note_sizes(uint32_t number) {
    Lock lock(*this);
    sized_before_ = number;
  }
  // The next node is a call of a user's kernel, which may fail in a recipe: its command needs the nodes, for the line.
  void expect_user_kernel() {
    Lock lock(*this);
    has_user_kernels_ = true;
  }
  // An operator of the step ran on its own, because it was new.
  void note_learned(const ShapeEntry& entry, uint32_t site);
  // Under the lock.
  void begin_node(const std::shared_ptr<const ShapeEntry>& entry, uint32_t site);
  void add_word(uint64_t word) {
    graph_.words.push_back(word);
    hash_.add(word);
  }
  std::vector<uint64_t>& numbers() { return graph_.numbers; }
  // The first number of the next node is the last seed that this thread drew (graph capture).
  void note_seed(uint32_t number);
  // Ends a node. Flushes if the graph has reached its maximal size. If the results have no room, the next call reports
  // it.
  void end_node();

  // Hands the graph to the device, if there is one. After any exception (c10::OutOfMemoryError when the results have no
  // room) nothing has changed: the graph is kept.
  void flush();
  // The same under the lock. The caller waits afterwards, without the lock, by `settle`.
  void flush_locked();
  // The same for a piece of a step. The step goes on after an operator that cannot be recorded.
  void hand_over_piece();
  // Waits until few enough steps are in flight, if this thread has handed one over. Do not call it under the lock:
  // other threads' recording and freeing would wait behind a step.
  void settle() {
    if (C10_UNLIKELY(owing_.load(std::memory_order_relaxed) != 0)) wait_for_steps();
  }

  // Until `end_capture`, nodes of the capture's threads become part of it. They also run when they are flushed. It
  // first flushes the earlier recording. Under the lock. Returns false if there is a capture already.
  bool begin_capture(Capture& capture);
  // Flushes and ends the capture. Under the lock. Returns the reason if the last recording could not be handed over; it
  // is kept then. `restore` is called when everything recorded is in the queue: now, or after a later flush.
  std::exception_ptr end_capture(std::function<void()> restore);

  // See Above. Also in eager mode: captures record.
  bool forget(HPUMemory& memory);
  void require(HPUMemory& memory);
  bool make_room();
  // The script waited for the device, in order to read something.
  void note_wait();

 private:
  struct Member {
    HPUMemory* memory;  // null: the storage is gone
    void* data;         // inputs, and memory that was taken over
    bool taken_over;    // the storage is gone and left its memory, to be freed once the graph is on its way
    uint32_t capture_slot;
    std::shared_ptr<SharedBlock> shared;  // memory that the storage, now gone, shared with captured graphs
    bool made = false;                    // the graph made it, and the storage is alive
    bool written = false;
    bool has_new_contents() const noexcept { return made || (written && memory && memory->small()); }
  };
  uint32_t enter(HPUMemory& memory);
  void hand_over();
  size_t allocate(std::vector<SlotMemory>& slots);
  std::shared_ptr<Recipe> recipe_for_graph(GraphCache::Sight& sight);
  bool note_death(HPUMemory& memory);
  bool keep_alive(Member& member);
  void pass_on_sizes();
  void choose_capture();
  void start_early();
  void flush_piece_locked();
  void note_step(uint64_t sequence, size_t operators);
  void note_call(const ShapeEntry& entry, uint32_t site);
  void end_sight();
  void wait_for_steps();

  device::Device& device_;
  std::recursive_timed_mutex mutex_;
  // Open while a flush, which holds the lock, may wait for the compiler and touches no member. Memory that another
  // thread frees meanwhile is noted under `deaths_mutex_` alone.
  std::mutex deaths_mutex_;
  bool deaths_open_ = false;
  Graph graph_;
  WordHash hash_;
  // Of the step's calls so far, the line of the first one, and whether some of them have been handed over or run before
  // the others.
  WordHash sequence_;
  uint32_t step_site_ = 0;
  bool step_begun_ = false, in_parts_ = false;
  bool has_user_kernels_ = false;  // in the recording
  std::vector<Member> members_;
  // Slots with sizes that depend on values, and the last such operator before the graph: see GraphCache::Sight.
  std::vector<std::pair<uint32_t, uint32_t>> sized_;
  uint32_t sized_before_ = 0;
  std::vector<c10::Storage> kept_;  // while a flush gives them memory
  uint64_t number_ = 1;
  bool flushing_ = false;
  bool overdue_ = false;  // the graph has its maximal size and found no room
  EarlyStart early_;
  bool piece_ = false;            // what is being handed over is a piece of a step
  bool step_recompiled_ = false;  // an earlier piece of this step was compiled anew
  Capture* capture_ = nullptr;
  bool captured_ = false;                             // whether the graph being recorded is part of the capture
  std::vector<std::pair<uint32_t, uint32_t>> seeds_;  // in numbers, and which draw of the capture it is
  std::vector<std::function<void()>> after_flush_;    // of captures that ended before
  // The host waits when it is more operators ahead of the device, as an eager script does, and more graphs.
  static constexpr size_t kOperatorsInFlight = 4096, kGraphsInFlight = 3;
  struct InFlight {
    uint64_t sequence;
    size_t operators;
  };
  std::deque<InFlight> in_flight_;  // the latest graphs, at most so many operators
  size_t operators_in_flight_ = 0;
  std::atomic<uint32_t> owing_{0};  // threads that are to wait
};

}  // namespace openhpu
