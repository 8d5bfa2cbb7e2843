#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <map>

#include "device/device.h"
#include "observe/Differences.h"

namespace openhpu {

class Capture;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// One collective, or one end of a message, in the order of its device's queue. It starts when all commands before it
// have run. Threads of the communication library run it. Commands that the script issues after `Work.wait` come after
// its end. In between the worker runs other commands. While the queue waits for it, no thread of ours waits: the thread
// that ends it resumes the queue. So a small collective that the host waits for wakes no more threads than without a
// device.
class Collective : public std::enable_shared_from_this<Collective> {
 public:
  struct What {
    std::string name;   // for messages: "hccl::allreduce"
    std::string group;  // for messages: rank and group
    c10d::OpType type;
    device::Device* device;
    uint32_t site;
    size_t nbytes;  // that this rank contributes or receives, whichever is more
  };
  using Tensors = std::vector<at::Tensor>;
  // The work, on CPU tensors over the device's memory: those that it changes, and the others. `start` hands it to the
  // communication library. `after` (or nothing) completes the results on one thread, before any thread sees that it is
  // done.
  struct Procedure {
    std::function<WorkPtr(const Tensors& written, const Tensors& read)> start;
    std::function<void(const Tensors& written)> after;
  };
  Collective(What what, Procedure procedure) : what_(std::move(what)), procedure_(std::move(procedure)) {}

  const What& what() const noexcept { return what_; }

  // Queues its start. The script's tensors are kept alive until no other tensor can get their memory.
  void issue(const Tensors& written, const Tensors& read);
  // Queues the wait for its end, once. Later commands come after it. Returns its place in the queue.
  uint64_t await_in_order();
  // Called by the thread that runs the queue's commands. `ready`: whether `await` has nothing to wait for, or must wait
  // itself.
  void start() noexcept;
  bool ready() noexcept;
  void await();

  bool awaited();
  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  std::exception_ptr error() const;
  int source_rank() const;
  // Begins to watch a collective that ends only on a waiting thread (usually a message), so that `done` becomes true by
  // itself.
  void watch();
  // Blocks the calling host thread until it has ended, or for this time (0: no limit). Returns false if it has not
  // ended by then.
  bool wait_for(std::chrono::milliseconds timeout);
  // Ends it with an error, and asks the library to end it. If the library goes on with it, its memory is given to no
  // other tensor. The remaining tensors are kept until the library has ended it. If some have gone, and their memory
  // may belong to other tensors, the queue waits until then. `at_end`: the process ends, so the queue does not wait.
  void abort(bool at_end = false) noexcept;

  // The collectives that are under way on a device without a queued wait. A wait for the device waits for these, too.
  static void await_all(device::Device& d);
  // The process ends because of an error. From now on no thread waits for answers of other ranks.
  static void abandon_all();

 private:
  void finish(std::exception_ptr error) noexcept;
  void end(std::exception_ptr error) noexcept;
  bool keep_memory();
  void ask_to_end(c10d::Work& work) noexcept;
  void end_here() noexcept;

  What what_;
  Procedure procedure_;
  Tensors written_, read_;  // aliases
  std::unique_ptr<device::TraceRecord> trace_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  WorkPtr work_;
  std::exception_ptr error_;
  std::atomic<bool> done_{false};
  // The library's progress: it got the memory; it is done with it; the results are being completed.
  bool started_ = false, completing_ = false;
  std::atomic<bool> released_{false};
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> memory_;  // of the script's tensors
  bool ends_by_itself_ = false;
  bool watched_ = false;
  uint64_t waited_since_ = 0;  // when the queue was first held up for it
  uint64_t ended_in_ns_ = 0;   // where it ended in its start
  std::mutex awaiting_;
  uint64_t awaited_ = 0;  // place of the wait in the queue; 0: none
};

// Collectives that may not have ended. Each call adds one: those that have ended are looked for only where their number
// has doubled since the last time. Its owner locks.
class UnderWay {
 public:
  void add(const std::shared_ptr<Collective>& collective);
  // Those that still exist.
  std::vector<std::shared_ptr<Collective>> all() const;

 private:
  static constexpr size_t kFew = 16;
  std::vector<std::weak_ptr<Collective>> collectives_;
  size_t most_ = kFew;
};

// torch.distributed.DistBackendError with the text of an error and the name of the collective and rank.
std::exception_ptr failure_of(const std::string& name, const std::string& group, std::exception_ptr error);

// Totals of the collectives of one operator that one line issued.
struct CollectiveTimes {
  uint64_t count = 0, bytes = 0;
  uint64_t wait_ns = 0;  // of the device
};
std::map<std::pair<std::string, uint32_t>, CollectiveTimes> collective_times();
void note_collective(const std::string& name, uint32_t site, size_t bytes, uint64_t wait_ns);

// In a graph capture: runs the collective and makes it an operator of the graph. Replays run it on their worker, from
// start to end. The graph keeps the collective's arguments alive.
void capture_collective(
    Capture& capture, std::string name, std::string group, Collective::Procedure procedure,
    const Collective::Tensors& written, const Collective::Tensors& read);
// Drops those whose graphs are gone and whose last runs have ended. Called by a thread of the script's.
void forget_captured_collectives();

// Whether collectives lie in the middle of lazy graphs' steps (PT_HPU_ENABLE_LAZY_COLLECTIVES); else each of them ends
// one, and a captured graph cannot hold it.
inline bool lazy_collectives() noexcept { return level_of(Difference::LazyCollectives) != Level::AsGaudi; }
// Called before a command that separates two parts of a step in the queue. Hands over the recording before it.
void cut_for_collective(device::Device& d);

// The script's handle of a collective.
class WorkHCCL final : public c10d::Work {
 public:
  // For the host's track of a profile. The device's shows when the collective ran.
  struct Profiled {
    const char* title;
    std::vector<at::Tensor> inputs;
  };
  WorkHCCL(
      int rank, std::vector<std::shared_ptr<Collective>> parts, std::vector<at::Tensor> outputs, uint64_t sequence,
      const std::optional<Profiled>& profiled = std::nullopt);
  ~WorkHCCL() override;

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override { return outputs_; }
  // Orders the device's queue; blocks the host for a barrier, or when a time limit is given. Raises
  // torch.distributed.DistBackendError when the limit has passed.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void synchronize() override { wait(); }
  void blockCurrentStream() override { wait(); }
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override { return sequence_; }

  const std::vector<std::shared_ptr<Collective>>& parts() const noexcept { return parts_; }

 private:
  std::vector<std::shared_ptr<Collective>> parts_;  // several when coalesced
  std::vector<at::Tensor> outputs_;
  uint64_t sequence_;
};

}  // namespace openhpu
