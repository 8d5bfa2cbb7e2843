// The library as OpenHPU's custom operators find it by GC_KERNEL_PATH.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <atomic>
#include <map>
#include <mutex>
#include <stdexcept>

#include "library.h"
#include "node.h"
#include "openhpu/kernel_host.h"
#include "openhpu/kernel_library.h"

namespace {

using openhpu::DType;
using openhpu::KernelCall;
using openhpu::Operand;

constexpr double kSeconds = 300;     // as in the table of OpenHPU's variables
constexpr int kPiecesOfThread = 4;   // so that threads which finish early get more
constexpr size_t kMostNodes = 1024;  // of a guid; then all are forgotten

// PyTorch's threads, if the process has PyTorch. The library itself needs none of it.
class Threads {
 public:
  static const Threads& get() {
    static const Threads threads;
    return threads;
  }
  int count() const { return parallel_ && !inside_() ? number_() : 1; }
  // Each thread takes the next part until there is none.
  static void run(int64_t count, OpenhpuTpcBody body, void* argument) {
    Work work{count, body, argument, {}};
    get().parallel_(take_parts, &work, static_cast<unsigned>(get().number_()), 0);
  }

 private:
  struct Work {
    int64_t count;
    OpenhpuTpcBody body;
    void* argument;
    std::atomic<int64_t> next;
  };
  static void take_parts(void* data) {
    Work& work = *static_cast<Work*>(data);
    for (int64_t i = work.next.fetch_add(1); i < work.count; i = work.next.fetch_add(1))
      work.body(work.argument, i, i + 1);
  }
  Threads() {
    void* torch = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
    if (torch == nullptr) return;
    find(torch, "_ZN2at15get_num_threadsEv", number_);
    find(torch, "_ZN2at18in_parallel_regionEv", inside_);
    find(torch, "GOMP_parallel", parallel_);  // of the OpenMP library that PyTorch uses
    if (number_ == nullptr || inside_ == nullptr) parallel_ = nullptr;
  }
  template <class F>
  static void find(void* library, const char* name, F& function) {
    function = reinterpret_cast<F>(dlsym(library, name));
  }
  int (*number_)() = nullptr;
  bool (*inside_)() = nullptr;
  void (*parallel_)(void (*)(void*), void*, unsigned, unsigned) = nullptr;
};

int generation() {
  const char* named = getenv("OPENHPU_GENERATION");
  if (named == nullptr) return 2;
  return strstr(named, "3") ? 3 : (strstr(named, "2") ? 2 : 1);
}
// Read once. OpenHPU has reported a value that is no number.
double seconds() {
  static const double limit = [] {
    const char* given = getenv("OPENHPU_KERNEL_SECONDS");
    return given == nullptr || *given == 0 ? kSeconds : strtod(given, nullptr);
  }();
  return limit;
}

// As OpenHPU reads it, which has reported a value that it does not know.
bool checks() {
  static const bool on = [] {
    const char* given = getenv("OPENHPU_CHECK_KERNELS");
    if (given == nullptr) return false;
    for (const char* yes : {"1", "true", "yes", "on"})
      if (strcasecmp(given, yes) == 0) return true;
    return false;
  }();
  return on;
}

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::Float64:
      return "float64";
    case DType::Complex64:
      return "complex64";
    case DType::Complex128:
      return "complex128";
    default:
      return "this dtype";
  }
}

// A type of kernels for a dtype. Gaudi's integers of 64 bits are 32 bits wide in a kernel, and so they are here.
OpenhpuTpcType type_of(DType dtype) {
  switch (dtype) {
    case DType::Float32:
      return OPENHPU_TPC_F32;
    case DType::BFloat16:
      return OPENHPU_TPC_BF16;
    case DType::Float16:
      return OPENHPU_TPC_F16;
    case DType::Float8E4M3:
      return OPENHPU_TPC_F8_143;
    case DType::Float8E5M2:
      return OPENHPU_TPC_F8_152;
    case DType::Int64:
    case DType::Int32:
      return OPENHPU_TPC_I32;
    case DType::UInt32:
      return OPENHPU_TPC_U32;
    case DType::Int16:
      return OPENHPU_TPC_I16;
    case DType::UInt16:
      return OPENHPU_TPC_U16;
    case DType::Bool:
    case DType::Int8:
      return OPENHPU_TPC_I8;
    case DType::UInt8:
      return OPENHPU_TPC_U8;
    default:
      throw std::runtime_error(
          std::string("a kernel in TPC-C has no type for ") + name_of(dtype) + " (number " +
          std::to_string(static_cast<int>(dtype)) +
          " of c10::ScalarType); it takes floats of 8 to 32 bits, integers and bool");
  }
}

OpenhpuTpcTensor described(const Operand& operand) {
  OpenhpuTpcTensor tensor{};
  tensor.type = type_of(operand.dtype);
  tensor.rank = operand.dim == 0 ? 1 : operand.dim;
  if (operand.dim > OPENHPU_TPC_DIMENSIONS)
    throw std::runtime_error(
        "a tensor has " + std::to_string(operand.dim) +
        " dimensions; a kernel's has 1 to 5. Reshape it before the call");
  tensor.sizes[0] = tensor.strides[0] = 1;
  for (int d = 0; d < operand.dim; d++) {
    tensor.sizes[d] = operand.sizes[operand.dim - 1 - d];
    tensor.strides[d] = operand.strides[operand.dim - 1 - d];
  }
  if (operand.dim > 0) tensor.strides[0] = 1;
  return tensor;
}

struct Described {
  std::vector<OpenhpuTpcTensor> inputs, outputs;
  std::vector<const Operand*> input_operands, output_operands;
  std::string key;

  explicit Described(const KernelCall& call) {
    for (size_t i = 0; i < call.input_count; i++)
      if (call.inputs[i].sizes != nullptr || call.inputs[i].data != nullptr)
        add(call.inputs[i], inputs, input_operands);
    for (size_t i = 0; i < call.output_count; i++) add(call.outputs[i], outputs, output_operands);
    for (const auto* tensors : {&inputs, &outputs}) {
      key.push_back(static_cast<char>(tensors->size()));
      key.append(reinterpret_cast<const char*>(tensors->data()), tensors->size() * sizeof(OpenhpuTpcTensor));
    }
    key.append(static_cast<const char*>(call.params), call.params ? call.params_size : 0);
  }

 private:
  static void add(
      const Operand& operand, std::vector<OpenhpuTpcTensor>& tensors, std::vector<const Operand*>& operands) {
    tensors.push_back(described(operand));
    operands.push_back(&operand);
  }
};

// Integers of 64 bits as a kernel has them. Outputs are read too, since they may be operands, of which a kernel keeps a
// part.
class Narrowed {
 public:
  explicit Narrowed(const std::vector<const Operand*>& operands) {
    for (const Operand* operand : operands) {
      const bool wide = operand->dtype == DType::Int64 && operand->data != nullptr;
      copies_.emplace_back(wide ? static_cast<size_t>(operand->numel()) : 0);
      for (size_t i = 0; i < copies_.back().size(); i++)
        copies_.back()[i] = static_cast<int32_t>(static_cast<const int64_t*>(operand->data)[i]);
    }
    for (size_t i = 0; i < operands.size(); i++)
      data.push_back(copies_[i].empty() ? operands[i]->data : copies_[i].data());
  }
  void write(const std::vector<const Operand*>& operands) const {
    for (size_t i = 0; i < operands.size(); i++)
      for (size_t j = 0; j < copies_[i].size(); j++) static_cast<int64_t*>(operands[i]->data)[j] = copies_[i][j];
  }
  std::vector<void*> data;

 private:
  std::vector<std::vector<int32_t>> copies_;
};

std::atomic<const openhpu::KernelHost*> host{nullptr};

// A guid of the glue, and the nodes that it was resolved for.
using Node = std::shared_ptr<void>;
struct Guid {
  std::string name;
  std::mutex mutex;
  std::map<std::string, Node> nodes;

  Node node(const KernelCall& call, const Described& described) {
    const std::lock_guard<std::mutex> lock(mutex);
    const auto found = nodes.find(described.key);
    if (found != nodes.end()) return found->second;
    char message[1024] = "";
    void* made = openhpu_tpc_resolve(
        name.c_str(), generation(), described.inputs.data(), static_cast<int>(described.inputs.size()),
        described.outputs.data(), static_cast<int>(described.outputs.size()), call.params, call.params_size, message,
        sizeof(message));
    if (made == nullptr) throw std::runtime_error(message);
    if (nodes.size() >= kMostNodes) nodes.clear();  // a call that runs keeps its own
    return nodes[described.key] = Node(made, openhpu_tpc_release);
  }
};

// The kernel with checks; what they find is an error of the operator.
void run_checked(void* node, void* const* inputs, void* const* outputs, const uint8_t* in_place) {
  const char* errors = "";
  const char* notes = "";
  OpenhpuTpcAccount account{};
  char message[4096] = "";
  if (openhpu_tpc_check(
          node, inputs, outputs, in_place, seconds(), &errors, &notes, &account, message, sizeof(message)))
    throw std::runtime_error(message);
  if (*errors != 0)
    throw std::runtime_error(
        "the checks of the kernel " + std::string(openhpu_tpc_kernel(node)) + " (OPENHPU_CHECK_KERNELS) found\n" +
        errors);
}

void run(void* context, const KernelCall& call) {
  const Described described(call);
  const Node node = static_cast<Guid*>(context)->node(call, described);
  const Narrowed inputs(described.input_operands);
  const Narrowed outputs(described.output_operands);
  if (checks()) {
    const openhpu::KernelHost* core = host.load(std::memory_order_acquire);
    run_checked(node.get(), inputs.data.data(), outputs.data.data(), core ? core->in_place(call) : nullptr);
    outputs.write(described.output_operands);
    return;
  }
  const int threads = Threads::get().count();
  char message[1024] = "";
  const int failed = openhpu_tpc_run(
      node.get(), inputs.data.data(), outputs.data.data(), threads > 1 ? Threads::run : nullptr,
      threads > 1 ? threads * kPiecesOfThread : 1, seconds(), message, sizeof(message));
  if (failed) throw std::runtime_error(message);
  outputs.write(described.output_operands);
}

void check(void* context, const KernelCall& call) { static_cast<Guid*>(context)->node(call, Described(call)); }

bool find(void*, const char* guid, openhpu::LibraryKernel* kernel) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Guid>> known;
  if (const char* why = openhpu_tpc_refused()) throw std::runtime_error(std::string("a library of kernels: ") + why);
  char message[512] = "";
  const char* const* guids = openhpu_tpc_guids(generation(), message, sizeof(message));
  if (guids == nullptr) throw std::runtime_error(message);
  for (; *guids != nullptr; guids++) {
    if (strcmp(*guids, guid) != 0) continue;
    const std::lock_guard<std::mutex> lock(mutex);
    auto& entry = known[guid];
    if (!entry) {
      entry = std::make_unique<Guid>();
      entry->name = guid;
    }
    *kernel = {run, check, entry.get()};
    return true;
  }
  return false;
}

}  // namespace

extern "C" OPENHPU_EXPORT const openhpu::KernelLibrary* openhpu_tpc_kernels() {
  static const openhpu::KernelLibrary library{openhpu::kKernelLibraryVersion, find, nullptr};
  return &library;
}

extern "C" OPENHPU_EXPORT void openhpu_kernel_host(const openhpu::KernelHost* given) {
  host.store(given, std::memory_order_release);
}
