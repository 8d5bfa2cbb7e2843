// Runs a node: cuts its index space, and gives each part an engine.
#include <string.h>

#include <atomic>
#include <mutex>
#include <stdexcept>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "checking.h"
#include "interrupt.h"
#include "node.h"
#include "places.h"

namespace tpc {
namespace {

struct Box {
  int offset[kMaxDimensions];
  int size[kMaxDimensions];
};

// Cuts the largest dimensions until there are `pieces` parts.
std::vector<Box> cut(const std::vector<int64_t>& space, int pieces) {
  int64_t cuts[kMaxDimensions] = {1, 1, 1, 1, 1};
  int64_t sizes[kMaxDimensions] = {1, 1, 1, 1, 1};
  for (size_t d = 0; d < space.size(); d++) sizes[d] = space[d];
  int64_t wanted = pieces;
  while (wanted > 1) {
    int widest = 0;
    for (int d = 1; d < kMaxDimensions; d++)
      if (sizes[d] / cuts[d] >= sizes[widest] / cuts[widest]) widest = d;
    const int64_t possible = sizes[widest] / cuts[widest];
    if (possible < 2) break;
    const int64_t now = possible < wanted ? possible : wanted;
    cuts[widest] *= now;
    wanted = (wanted + now - 1) / now;
  }
  int64_t total = 1;
  for (const int64_t each : cuts) total *= each;
  std::vector<Box> boxes;
  for (int64_t index = 0; index < total; index++) {
    Box box{};
    int64_t rest = index;
    for (int d = 0; d < kMaxDimensions; d++) {
      const int64_t part = rest % cuts[d];
      rest /= cuts[d];
      const int64_t begin = sizes[d] * part / cuts[d];
      const int64_t end = sizes[d] * (part + 1) / cuts[d];
      box.offset[d] = static_cast<int>(begin);
      box.size[d] = static_cast<int>(end - begin);
    }
    boxes.push_back(box);
  }
  return boxes;
}

void fill(Tensor& to, const OpenhpuTpcTensor& from, void* data, uint32_t padding) {
  const int bytes = element_bytes(from.type);
  to.data = static_cast<char*>(data);
  to.rank = from.rank;
  to.element_bytes = bytes;
  to.padding = bytes == 4 ? padding : (bytes == 2 ? (padding & 0xffffu) * 0x10001u : (padding & 0xffu) * 0x1010101u);
  for (int d = 0; d < kMaxDimensions; d++) {
    const bool there = d < from.rank;
    to.size[d] = there ? static_cast<uint32_t>(from.sizes[d]) : 1;
    to.stride[d] = there ? static_cast<uint32_t>(from.strides[d]) : 0;
    to.stride_bytes[d] = there ? from.strides[d] * bytes : 0;
  }
}

// Rows of the fastest dimension, wherever the strides put them.
void clear(const OpenhpuTpcTensor& tensor, char* data, int dimension) {
  const int bytes = element_bytes(tensor.type);
  if (dimension == 0) {
    memset(data, 0, static_cast<size_t>(tensor.sizes[0] * bytes));
    return;
  }
  for (int64_t i = 0; i < tensor.sizes[dimension]; i++)
    clear(tensor, data + i * tensor.strides[dimension] * bytes, dimension - 1);
}

// A Gaudi takes numbers that are not normal for zeros.
class FlushedToZero {
#if defined(__x86_64__)
 public:
  FlushedToZero() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~FlushedToZero() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#endif
};

// Sets what a part of the index space finds at its beginning: no table, and random numbers that depend on its place.
void begin_part(Engine& engine) {
  engine.table = nullptr;
  uint32_t seed = 0x9e3779b9u;
  for (const int offset : engine.offset) seed = (seed ^ static_cast<uint32_t>(offset)) * 0x01000193u;
  engine.scalar_random = seed | 1u;
  for (uint32_t& state : engine.random) {
    seed = seed * 1664525u + 1013904223u;
    state = seed | 1u;
  }
}

struct Run {
  const Node& node;
  const KernelEntry& kernel;
  const Engine& prototype;
  const std::vector<Box>& boxes;
  double seconds;
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::string error;
  int lines = 0;

  void part(int64_t begin, int64_t end) {
    auto engine = std::make_unique<Engine>();
    for (int64_t index = begin; index < end && !failed.load(std::memory_order_relaxed); index++) {
      memcpy(engine->tensor, prototype.tensor, sizeof(engine->tensor));
      engine->tensors = prototype.tensors;
      engine->lines = &lines;
      const Box& box = boxes[static_cast<size_t>(index)];
      for (int d = 0; d < kMaxDimensions; d++) {
        engine->offset[d] = box.offset[d];
        engine->size[d] = box.size[d];
      }
      begin_part(*engine);
      const FlushedToZero mode;
      if (!run_guarded(*engine, kernel, node.instance.scalars.data(), seconds)) note(*engine);
    }
  }
  void note(const Engine& engine) {
    if (failed.exchange(true)) return;
    std::string place = engine.address ? place_of_address(engine.address) : "";
    // Some entries of the line table name the C++ that the kernel became; its lines are the source's.
    const size_t written = place.rfind(".cpp:");
    if (written != std::string::npos) place = kernel.source + place.substr(written + 4);
    std::string text =
        "the kernel " + std::string(kernel.name) + " (" + kernel.source + ") was ended: " + engine.message;
    if (!place.empty()) text += ", at " + place;
    text += "; its part of the index space begins at (";
    for (size_t d = 0; d < node.instance.space.size(); d++) text += (d ? ", " : "") + std::to_string(engine.offset[d]);
    const std::lock_guard<std::mutex> lock(mutex);
    error = text + ")";
  }
  static void body(void* run, int64_t begin, int64_t end) { static_cast<Run*>(run)->part(begin, end); }
};

}  // namespace

namespace {

void clear_outputs(const Node& node, void* const* outputs) {
  for (size_t i = 0; i < node.instance.cleared.size(); i++)
    if (node.instance.cleared[i] && outputs[i] != nullptr)
      clear(node.outputs[i], static_cast<char*>(outputs[i]), node.outputs[i].rank - 1);
}

// An engine with the tensors of the node.
std::unique_ptr<Engine> engine_of(const Node& node, void* const* inputs, void* const* outputs) {
  auto prototype = std::make_unique<Engine>();
  int count = 0;
  for (size_t i = 0; i < node.inputs.size(); i++)
    fill(prototype->tensor[count++], node.inputs[i], inputs[i], node.instance.padding[i]);
  for (size_t i = 0; i < node.outputs.size(); i++) fill(prototype->tensor[count++], node.outputs[i], outputs[i], 0);
  for (const Auxiliary& table : node.instance.auxiliary)
    fill(prototype->tensor[count++], table.description, const_cast<char*>(table.data.data()), 0);
  prototype->tensors = count;
  return prototype;
}

// All members one after the other.
struct Members {
  const Node& node;
  const KernelEntry& kernel;
  const Engine& prototype;
  Checks& checks;

  static void run(Engine& engine, void* argument) {
    Members& all = *static_cast<Members*>(argument);
    const auto& space = all.node.instance.space;
    const int64_t count = all.node.members();
    for (int64_t number = 0; number < count; number++) {
      memcpy(engine.tensor, all.prototype.tensor, sizeof(Tensor) * static_cast<size_t>(engine.tensors));
      int64_t rest = number;
      for (size_t d = 0; d < kMaxDimensions; d++) {
        const int64_t size = d < space.size() ? space[d] : 1;
        engine.offset[d] = static_cast<int>(rest % size);
        engine.size[d] = 1;
        rest /= size;
      }
      begin_part(engine);
      all.checks.begin(number, engine.offset);
      all.kernel.run_checked(all.node.instance.scalars.data());
    }
  }
};

}  // namespace

void run_node(
    const Node& node, void* const* inputs, void* const* outputs, OpenhpuTpcParallel parallel, int pieces,
    double seconds) {
  clear_outputs(node, outputs);
  if (node.members() == 0) return;
  const KernelEntry& kernel = kernels[node.instance.kernel];
  const auto prototype = engine_of(node, inputs, outputs);
  install_handlers();
  const std::vector<Box> boxes = cut(node.instance.space, pieces < 1 ? 1 : pieces);
  Run run{node, kernel, *prototype, boxes, seconds, {}, {}, {}};
  if (parallel != nullptr && boxes.size() > 1)
    parallel(static_cast<int64_t>(boxes.size()), Run::body, &run);
  else
    run.part(0, static_cast<int64_t>(boxes.size()));
  if (run.failed) throw std::runtime_error(run.error);
}

Checked check_node(
    const Node& node, void* const* inputs, void* const* outputs, const uint8_t* in_place, double seconds) {
  const KernelEntry& kernel = kernels[node.instance.kernel];
  if (kernel.run_checked == nullptr)
    throw std::runtime_error(
        "the kernel " + std::string(kernel.name) +
        " was built without checks. Build its library with openhpu tpc build, without --no-checks");
  clear_outputs(node, outputs);
  const auto prototype = engine_of(node, inputs, outputs);
  Checks checks(node, *prototype, in_place);
  int lines = 0;
  auto engine = std::make_unique<Engine>();
  engine->tensors = prototype->tensors;
  engine->lines = &lines;
  engine->checks = &checks;
  install_handlers();
  Members members{node, kernel, *prototype, checks};
  bool finished;
  {
    const FlushedToZero mode;
    finished = guarded(*engine, seconds, Members::run, &members);
  }
  if (!finished) {
    const std::vector<Box> none;
    Run run{node, kernel, *prototype, none, seconds, {}, {}, {}};
    run.note(*engine);
    throw std::runtime_error(run.error + "\n" + checks.report(true));
  }
  const Counts done = counts;
  checks.finish();
  Checked result;
  result.errors = checks.report(true);
  result.notes = checks.report(false);
  result.account = {
      node.members(),
      static_cast<int64_t>(done.vector),
      static_cast<int64_t>(done.special),
      static_cast<int64_t>(done.loads),
      static_cast<int64_t>(done.stores),
      static_cast<int64_t>(done.load_bytes),
      static_cast<int64_t>(done.store_bytes),
      static_cast<int64_t>(done.scalars),
      static_cast<int64_t>(done.local),
      static_cast<int64_t>(*kernel.local_bytes)};
  return result;
}

}  // namespace tpc
