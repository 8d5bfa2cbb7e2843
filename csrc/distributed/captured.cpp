// Collectives of captured graphs: the operator hccl::collective_, whose number names what a capture met.
#include "distributed/Collective.h"

#include <torch/library.h>

#include "observe/events.h"
#include "observe/site.h"
#include "record/Capture.h"

namespace openhpu {
namespace {

struct Met {
  std::string name, group;
  Collective::Procedure procedure;
  uint32_t site;
};

// By number. One goes when its graph has gone, and with it the last run that is under way.
struct Entry {
  std::shared_ptr<const Met> met;
  std::weak_ptr<const void> graphs;
  device::Device* device;
  uint64_t gone_at = 0;  // in the device's queue: what was submitted when it was seen that the graphs have gone
};
std::mutex met_mutex;
auto& all_met = *new std::unordered_map<int64_t, Entry>();

void collective(at::TensorList read, at::TensorList written, int64_t number) {
  std::shared_ptr<const Met> met;
  {
    std::lock_guard lock(met_mutex);
    const auto found = all_met.find(number);
    TORCH_CHECK(found != all_met.end(), "hccl: the graph of this captured collective has gone");
    met = found->second.met;
  }
  const uint64_t since = now_ns();
  size_t bytes = 0;
  for (const auto& tensors : {read, written})
    for (const auto& t : tensors) bytes = std::max(bytes, t.nbytes());
  try {
    auto work = met->procedure.start(written.vec(), read.vec());
    if (work) work->wait();
    if (met->procedure.after) met->procedure.after(written.vec());
    count(Counter::Collectives);
    count(Counter::CollectiveBytes, bytes);
    note_collective(met->name, met->site, bytes, now_ns() - since);
  } catch (...) {
    std::rethrow_exception(failure_of(met->name, met->group, std::current_exception()));
  }
}

}  // namespace

void forget_captured_collectives() {
  std::vector<std::shared_ptr<const Met>> forgotten;  // dropped without the lock: a group may go with it
  std::lock_guard lock(met_mutex);
  for (auto it = all_met.begin(); it != all_met.end();) {
    auto& entry = it->second;
    auto& queue = entry.device->queue();
    if (entry.graphs.expired() && !entry.gone_at) entry.gone_at = queue.submitted();
    if (entry.graphs.expired() && queue.completed() >= entry.gone_at) {
      forgotten.push_back(std::move(entry.met));
      it = all_met.erase(it);
    } else {
      ++it;
    }
  }
}

void capture_collective(
    Capture& capture, std::string name, std::string group, Collective::Procedure procedure,
    const Collective::Tensors& written, const Collective::Tensors& read) {
  forget_captured_collectives();
  static std::atomic<int64_t> next{0};
  const int64_t number = next.fetch_add(1);
  const auto held = std::make_shared<const char>();
  {
    std::lock_guard lock(met_mutex);
    all_met[number] = {
        std::make_shared<const Met>(Met{std::move(name), std::move(group), std::move(procedure), current_site()}), held,
        &capture.device()};
  }
  capture.hold(held);
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("hccl::collective_", "")
                             .typed<void(at::TensorList, at::TensorList, int64_t)>();
  op.call(read, written, number);
}

TORCH_LIBRARY(hccl, m) { m.def("collective_(Tensor[] read, Tensor(a!)[] written, int number) -> ()"); }
TORCH_LIBRARY_IMPL(hccl, CPU, m) { m.impl("collective_", collective); }

}  // namespace openhpu
