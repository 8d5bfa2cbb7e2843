// Collectives of captured graphs: the operator hccl::collective_, whose number names what a capture met.
#include "distributed/captured.h"

#include <torch/library.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "runtime/events.h"
#include "runtime/site.h"

namespace openhpu {
namespace {

struct Met {
  std::string name, group;
  Collective::Procedure procedure;
  size_t written_from, written_to;
  uint32_t site;
};

// For as long as the process lives: a graph may hold the number.
std::mutex met_mutex;
std::vector<std::shared_ptr<const Met>>& all_met() {
  static auto* all = new std::vector<std::shared_ptr<const Met>>();
  return *all;
}

void collective(at::TensorList read, at::TensorList written, int64_t number) {
  std::shared_ptr<const Met> met;
  {
    std::lock_guard lock(met_mutex);
    met = all_met().at(static_cast<size_t>(number));
  }
  // In the order in which the group gave them.
  Collective::Tensors all(read.begin(), read.end());
  all.insert(all.begin() + static_cast<std::ptrdiff_t>(met->written_from), written.begin(), written.end());
  const uint64_t since = now_ns();
  size_t bytes = 0;
  for (const auto& t : all) bytes = std::max(bytes, t.nbytes());
  try {
    auto work = met->procedure.start(all);
    if (work) work->wait();
    if (met->procedure.after) met->procedure.after(all);
    count(Counter::Collectives);
    count(Counter::CollectiveBytes, bytes);
    note_collective(met->name, met->site, bytes, now_ns() - since);
  } catch (...) {
    std::rethrow_exception(failure_of(met->name, met->group, std::current_exception()));
  }
}

}  // namespace

void capture_collective(
    std::string name, std::string group, Collective::Procedure procedure, const Collective::Tensors& tensors,
    size_t written_from, size_t written_to) {
  int64_t number = 0;
  {
    std::lock_guard lock(met_mutex);
    number = static_cast<int64_t>(all_met().size());
    all_met().push_back(std::make_shared<const Met>(
        Met{std::move(name), std::move(group), std::move(procedure), written_from, written_to, current_site()}));
  }
  const auto begin = tensors.begin() + static_cast<std::ptrdiff_t>(written_from);
  const auto end = tensors.begin() + static_cast<std::ptrdiff_t>(written_to);
  Collective::Tensors read(tensors.begin(), begin);
  read.insert(read.end(), end, tensors.end());
  const Collective::Tensors written(begin, end);
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("hccl::collective_", "")
                             .typed<void(at::TensorList, at::TensorList, int64_t)>();
  op.call(read, written, number);
}

TORCH_LIBRARY(hccl, m) { m.def("collective_(Tensor[] read, Tensor(a!)[] written, int number) -> ()"); }
TORCH_LIBRARY_IMPL(hccl, CPU, m) { m.impl("collective_", collective); }

}  // namespace openhpu
