#include "record/Capture.h"

#include <ATen/ThreadLocalPythonObjects.h>
#include <c10/core/impl/PyInterpreterHooks.h>

#include <cstdlib>

#include "observe/MemoryHistory.h"
#include "observe/events.h"
#include "observe/site.h"
#include "record/GraphSights.h"
#include "record/Lazy.h"
#include "torch/HPUGenerator.h"

namespace openhpu {

std::atomic<int> g_captures{0};

namespace {

// The values that other threads read about a capture. They never read the capture itself.
struct Active {
  std::atomic<Capture*> capture{nullptr};
  std::atomic<std::thread::id> thread{};
  std::atomic<void*> token{nullptr};
};
std::array<Active, kMaxDevices> actives;

std::atomic<uint64_t> next_id{1};
thread_local uint32_t tls_last_draw = 0;

}  // namespace

Capture* find_capture(device::Device& d) noexcept {
  auto& a = actives[d.index()];
  auto* capture = a.capture.load(std::memory_order_acquire);
  if (!capture) return nullptr;
  if (a.thread.load(std::memory_order_relaxed) == std::this_thread::get_id()) return capture;
  if (!at::impl::ThreadLocalPythonObjects::contains(kCaptureToken)) return nullptr;
  const auto& mark = at::impl::ThreadLocalPythonObjects::get(kCaptureToken);
  const void* token = mark->ptr(c10::impl::getGlobalPyInterpreter());
  return token == a.token.load(std::memory_order_relaxed) ? capture : nullptr;
}

void refuse_in_capture(const std::string& op, const char* remedy) {
  const std::string where = describe_site(current_site());
  const std::string message = op + " is not supported during HPU Graph capturing" +
                              (where.empty() ? "" : "; it was issued at " + where) + ". " + remedy;
  for (auto* d : device::DeviceRegistry::instance().open())
    if (auto* capture = current_capture(*d)) capture->refuse(message);
  TORCH_CHECK(false, message);
}

void check_not_capturing(device::Device& d, const char* what) {
  if (current_capture(d)) refuse_in_capture(what, kWaitRemedy);
}

Capture::Capture(c10::DeviceIndex index, void* token, bool dry_run, bool undone)
    : index_(normalize_index(index)),
      device_(device_of(index_)),
      recorder_(Recorder::of(device_)),
      id_(next_id.fetch_add(1)),
      stream_(current_stream(index_)),
      thread_(std::this_thread::get_id()),
      dry_run_(dry_run),
      undone_(undone) {
  Recorder::Lock lock(recorder_);
  TORCH_CHECK(
      recorder_.begin_capture(*this),
      "capture_begin: a graph capture is already in progress on hpu:", static_cast<int>(index_),
      ". End it with capture_end(), or with reset() of its graph, before the next one begins.");
  auto& a = actives[device_.index()];
  a.thread.store(thread_);
  a.token.store(token);
  a.capture.store(this, std::memory_order_release);
  g_captures.fetch_add(1);
  active_ = true;
}

Capture::~Capture() {
  release("a capture", [&] { abandon("it was dropped"); });
}

// Ends the capture, and undoes a dry run as soon as all of it is on its way to the device. Returns why that could not
// be.
std::exception_ptr Capture::stop() {
  active_ = false;
  actives[device_.index()].capture.store(nullptr, std::memory_order_release);
  g_captures.fetch_sub(1);
  std::function<void()> restore;
  if (dry_run_) {
    std::vector<std::pair<Member, size_t>> changed;
    for (size_t i = 0; i < members_.size(); ++i)
      if (members_[i].backup) changed.emplace_back(members_[i], graph_.slots[i].nbytes);
    restore = [changed = std::move(changed), &d = device_] {
      for (const auto& [member, nbytes] : changed)
        copy_in_order(d, "graph capture", member.data, member.backup.get(), nbytes, 0, member.backup);
    };
  }
  auto error = recorder_.end_capture(std::move(restore));
  for (const auto& s : states_) s.generator.unsafeGetGeneratorImpl()->set_state(*s.state);
  return error;
}

void Capture::abandon(std::string why) {
  if (C10_UNLIKELY(!device::DeviceRegistry::instance().get_if_open(device_.index()))) {
    // A forked child, or the end of the process: the recorder may stay locked for ever, and nothing is left to undo.
    if (!std::exchange(active_, false)) return;
    actives[device_.index()].capture.store(nullptr, std::memory_order_release);
    g_captures.fetch_sub(1);
    failure_ = std::move(why);
    return;
  }
  Recorder::Lock lock(recorder_);
  if (!active_) return;
  if (failure_.empty()) failure_ = std::move(why);
  stop();  // what could not be handed over is kept, and the next flush tells
  graph_.clear();
  members_.clear();
  draws_.clear();
  named_.clear();
}

void Capture::refuse(const std::string& why) {
  if (!undone_) return abandon(why);
  Recorder::Lock lock(recorder_);
  if (failure_.empty()) failure_ = why;
}

uint32_t Capture::slot_of(HPUMemory& memory) {
  const bool met = memory.capture == id_;
  if (met && memory.capture_slot != HPUMemory::kMadeInCapture) return memory.capture_slot;
  const auto slot = static_cast<uint32_t>(graph_.slots.size());
  graph_.slots.push_back({memory.nbytes, met});
  members_.push_back({&memory, nullptr, nullptr, nullptr});
  if (!met) {
    // Its address belongs to the graph as well, even if the tensor goes.
    members_.back().data = memory.data;
    members_.back().held = share_memory(memory);
  }
  memory.capture = id_;
  memory.capture_slot = slot;
  return slot;
}

void Capture::forget(HPUMemory& memory) {
  weights_.erase(&memory);
  if (memory.capture == id_ && memory.capture_slot != HPUMemory::kMadeInCapture)
    members_[memory.capture_slot].memory = nullptr;
}

void Capture::take(
    const Graph& piece, const std::function<uint32_t(uint32_t)>& slot,
    const std::vector<std::pair<uint32_t, uint32_t>>& seeds) {
  const size_t nodes = graph_.nodes.size(), words = graph_.words.size(), numbers = graph_.numbers.size();
  try {
    for (const auto& node : piece.nodes)
      graph_.append(piece, node, static_cast<uint32_t>(numbers) + node.numbers, slot);
    graph_.numbers.insert(graph_.numbers.end(), piece.numbers.begin(), piece.numbers.end());
    for (const auto& [number, draw] : seeds) draws_[draw].numbers.push_back(static_cast<uint32_t>(numbers) + number);
  } catch (...) {
    truncate(nodes, words, numbers);
    throw;
  }
}

void Capture::truncate(size_t nodes, size_t words, size_t numbers) noexcept {
  graph_.nodes.erase(graph_.nodes.begin() + static_cast<std::ptrdiff_t>(nodes), graph_.nodes.end());
  graph_.words.resize(words);
  graph_.numbers.resize(numbers);
  for (auto& draw : draws_) std::erase_if(draw.numbers, [&](uint32_t number) { return number >= numbers; });
}

void Capture::back_up(uint32_t slot) {
  auto& member = members_[slot];
  const size_t nbytes = graph_.slots[slot].nbytes;
  if (graph_.slots[slot].fresh || member.backup || !member.data) return;
  // On the host: a server's cache of keys and values takes most of the device's memory, and a Gaudi needs no second
  // one.
  std::shared_ptr<void> backup(std::malloc(nbytes), std::free);
  TORCH_CHECK_WITH(
      OutOfMemoryError, backup, "capture_begin: the host has no memory for a copy of ", nbytes,
      " bytes that the capture changes and its end restores. Capture before the largest tensors are made.");
  copy_in_order(device_, "graph capture", backup.get(), member.data, nbytes, 0, backup);
  member.backup = std::move(backup);
}

void Capture::hold(std::shared_ptr<const void> named) {
  Recorder::Lock lock(recorder_);
  named_.push_back(std::move(named));
}

void Capture::note_draw(const std::optional<at::Generator>& generator, c10::DeviceIndex index) {
  const auto& g = generator.has_value() && generator->defined() ? *generator : default_generator(index);
  Recorder::Lock lock(recorder_);
  if (dry_run_) {
    bool known = false;
    for (const auto& s : states_) known = known || s.generator == g;
    if (!known) states_.push_back({g, g.unsafeGetGeneratorImpl()->get_state()});
  }
  tls_last_draw = static_cast<uint32_t>(draws_.size());
  draws_.push_back({g, {}});
}

uint32_t Capture::last_draw() noexcept { return tls_last_draw; }

std::unique_ptr<CapturedGraph> Capture::finish() {
  Recorder::Lock lock(recorder_);
  if (!failure_.empty()) abandon({});
  if (!active_) return nullptr;
  if (auto error = stop()) {
    failure_ = "the device has no room for its results";
    std::rethrow_exception(error);
  }
  CapturedProgram program;
  for (size_t i = 0; i < members_.size(); ++i) {
    auto& member = members_[i];
    const auto& slot = graph_.slots[i];
    const bool alive =
        slot.fresh && member.memory && !member.memory->pending();  // pending: another thread is destroying it
    if (!slot.fresh && weights_.count(member.memory) && member.held) {
      watch_memory(*member.memory);
      program.weights.push_back(static_cast<uint32_t>(i));
    }
    if (alive) {
      member.data = member.memory->data;
      member.held = share_memory(*member.memory);
    }
    program.slots.push_back({member.data, slot.nbytes, alive || !slot.fresh, slot.fresh});
    program.held.push_back(std::move(member.held));
  }
  program.graph = std::move(graph_);
  program.named = std::move(named_);
  count(Counter::GraphsCaptured);
  auto captured = std::make_unique<CapturedGraph>(device_, index_, std::move(program), std::move(draws_));
  GraphSights::instance().note(captured->program().hash, /*in_parts=*/false);
  return captured;
}

}  // namespace openhpu
