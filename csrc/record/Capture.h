#pragma once

#include "device/device.h"
#include "record/CapturedGraph.h"
#include "torch/HPUAllocator.h"
#include "torch/HPUDevice.h"

// A capture of the operators that a thread issues on a device, in every mode. Operators are recorded, as in lazy mode,
// and run as the pieces of the graph are flushed. The pieces are joined into one graph, in which each storage has one
// slot, however many pieces use it.
namespace openhpu {

class Recorder;

// Captures under way in the process.
extern std::atomic<int> g_captures;
inline bool capturing() noexcept { return g_captures.load(std::memory_order_relaxed) > 0; }

class Capture {
 public:
  // `token`: a Python object that marks the threads whose operators are captured. It is the value of kCaptureToken in
  // PyTorch's thread-local objects, which autograd's threads take over from the thread that calls backward. `undone`,
  // for a dry run: an operator that cannot be captured does not end the capture, so that everything up to its end is
  // undone, also when the script handles the error and goes on. Throws if a capture is under way on the device.
  Capture(c10::DeviceIndex index, void* token, bool dry_run, bool undone);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // Ends the capture. Returns null if it had failed; `failure` has the reason.
  std::unique_ptr<CapturedGraph> finish();
  // Ends the capture without a result. Harmless when it has ended.
  void abandon(std::string why);
  // An operation cannot be captured. So the capture will have no result.
  void refuse(const std::string& why);
  // The reason why there is, or will be, no result; empty so far.
  const std::string& failure() const noexcept { return failure_; }
  bool active() const noexcept { return active_; }

  c10::Stream stream() const noexcept { return stream_; }
  std::thread::id thread() const noexcept { return thread_; }
  device::Device& device() const noexcept { return device_; }
  bool dry_run() const noexcept { return dry_run_; }

  // The following under the recorder's lock.
  // Operators in the pieces that were flushed so far.
  size_t nodes() const noexcept { return graph_.nodes.size(); }
  // The slot of a storage, entered if need be.
  uint32_t slot_of(HPUMemory& memory);
  void made_here(HPUMemory& memory) {
    memory.capture = id_;
    memory.capture_slot = HPUMemory::kMadeInCapture;
  }
  bool has_met(const HPUMemory& memory) const noexcept { return memory.capture == id_; }
  void forget(HPUMemory& memory);
  // Appends a piece. `slot(s)`: the capture's slot for slot s of the piece; `seeds`: number of the piece, draw.
  void take(
      const Graph& piece, const std::function<uint32_t(uint32_t)>& slot,
      const std::vector<std::pair<uint32_t, uint32_t>>& seeds);
  // The memory does not change from replay to replay, unless another command writes to it.
  void note_weight(HPUMemory& memory) { weights_.insert(&memory); }
  // An object that a node names by a number. The graph holds it.
  void hold(std::shared_ptr<const void> named);
  // In a dry run: keeps the contents that an operator is about to overwrite, before it is recorded.
  void back_up(uint32_t slot);

  // Before a seed is drawn.
  void note_draw(const std::optional<at::Generator>& generator, c10::DeviceIndex index);
  // This thread's last draw.
  static uint32_t last_draw() noexcept;

 private:
  std::exception_ptr stop();
  void truncate(size_t nodes, size_t words, size_t numbers) noexcept;

  struct Member {
    HPUMemory* memory;  // null: the storage is gone
    void* data;         // of inputs
    std::shared_ptr<SharedBlock> held;
    std::shared_ptr<void> backup;
  };
  struct State {
    at::Generator generator;
    c10::intrusive_ptr<c10::TensorImpl> state;
  };

  const c10::DeviceIndex index_;
  device::Device& device_;
  Recorder& recorder_;
  const uint64_t id_;
  const c10::Stream stream_;
  const std::thread::id thread_;
  const bool dry_run_, undone_;
  bool active_ = false;
  std::string failure_;
  Graph graph_;
  std::vector<Member> members_;
  std::unordered_set<const HPUMemory*> weights_;
  std::vector<CapturedGraph::Draw> draws_;
  std::vector<State> states_;
  std::vector<std::shared_ptr<const void>> named_;
};

constexpr const char* kCaptureToken = "openhpu_capture";

// The capture of this thread's operators on a device; null if there is none.
Capture* find_capture(device::Device& d) noexcept;
inline Capture* current_capture(device::Device& d) noexcept { return capturing() ? find_capture(d) : nullptr; }
inline Capture* current_capture(c10::DeviceIndex index) {
  return C10_UNLIKELY(capturing()) ? find_capture(device_of(index)) : nullptr;
}

// Ends this thread's capture and throws, naming the operator, its line and the remedy.
[[noreturn]] void refuse_in_capture(const std::string& op, const char* remedy);
void check_not_capturing(device::Device& d, const char* what);

inline constexpr const char* kFallbackRemedy =
    "It runs on the CPU for these dtypes (CPU fallback). Capture only operators that are native on the device: use "
    "another operator or dtype, or leave this part out of the graph.";
inline constexpr const char* kDataDependentRemedy =
    "What it returns depends on values, which differ from replay to replay. Use a form of static shape (torch.where "
    "with three arguments, masks), or split the model so that this operator lies between two graphs.";
inline constexpr const char* kHostReadRemedy =
    "The host would need a value that a replay only computes later. Keep the value on the device, or read it after the "
    "capture and after each replay.";
inline constexpr const char* kWaitRemedy =
    "A replay cannot wait for itself. Synchronise before the capture or after it.";
inline constexpr const char* kResizeRemedy =
    "It moves contents to new memory. Make the tensor in its final size before the capture.";
inline constexpr const char* kOtherDeviceRemedy =
    "A graph belongs to one device. Copy between devices before the capture or after it.";
inline constexpr const char* kUnknownCallRemedy =
    "A graph can't hold this call: its arguments or results are not dense device tensors with memory of their own. "
    "Leave it out of the graph.";

}  // namespace openhpu
