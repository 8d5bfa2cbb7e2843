#include "run/UserKernel.h"

#include <ATen/ops/empty.h>
#include <cxxabi.h>
#include <dlfcn.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>
#include <unistd.h>

#include "device/device.h"
#include "openhpu/kernel_host.h"
#include "run/CallRunner.h"
#include "run/CheckedOperands.h"
#include "run/KernelFaults.h"
#include "run/Operator.h"
#include "run/VendorKernels.h"

namespace openhpu {
namespace {

// A library of GC_KERNEL_PATH.
struct Listed {
  std::string path;
  bool asked = false;  // loaded, and by the runner that is set now
  const KernelLibrary* kernels = nullptr;
  std::string why_not;  // it has no kernels
};

struct Kernels {
  std::mutex mutex;
  std::unordered_map<std::string, std::unique_ptr<UserKernel>> functions, python, found;
  std::unordered_map<std::string, std::string> errors;  // by guid: why a kernel was not registered
  std::vector<Listed> libraries;
  const LibraryRunner* runner = nullptr;
  std::unordered_map<std::string, UserOp*> ops;
};

Kernels& kernels() {
  static auto* all = new Kernels();  // workers may run while the process ends
  return *all;
}

// KernelHost::in_place, of each result of a schema.
std::vector<uint8_t> in_place_results(const char* name) {
  std::vector<uint8_t> found;
  const auto handle = c10::Dispatcher::singleton().findSchema(torch::jit::parseName(name));
  if (!handle) return found;
  const auto& schema = handle->schema();
  for (const auto& result : schema.returns()) {
    const auto* written = result.alias_info();
    const bool read_too = written && written->isWrite() && std::ranges::any_of(schema.arguments(), [&](const auto& of) {
                            return of.alias_info() && *of.alias_info() == *written && !of.is_out();
                          });
    found.push_back(read_too);
  }
  return found;
}

const uint8_t* in_place(const KernelCall& call) {
  static std::mutex mutex;
  static auto* known = new std::unordered_map<std::string, std::vector<uint8_t>>();  // by schema; never forgotten
  std::lock_guard lock(mutex);
  auto found = known->find(call.op);
  if (found == known->end()) found = known->emplace(call.op, in_place_results(call.op)).first;
  return found->second.size() == call.output_count ? found->second.data() : nullptr;
}

void open_library(Kernels& all, Listed& listed) {
  if (std::exchange(listed.asked, true)) return;
  if (access(listed.path.c_str(), F_OK) != 0) {
    listed.why_not = "there is no such file";
    return;
  }
  void* handle = dlopen(listed.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    listed.why_not = dlerror();
    return;
  }
  static const KernelHost host{1, &in_place};
  if (auto* entry = reinterpret_cast<KernelHostEntry>(dlsym(handle, kKernelHostEntry))) entry(&host);
  if (auto* entry = reinterpret_cast<KernelLibraryEntry>(dlsym(handle, kKernelLibraryEntry))) {
    listed.kernels = entry();
  } else if (all.runner) {
    listed.kernels = all.runner->open(all.runner->runner, handle, listed.path.c_str());
    listed.why_not = std::string(all.runner->name) + " finds no kernels in it";
  } else {
    listed.why_not = "its kernels are not for the host: a runner of such libraries, as openhpu-tpc has one, is missing";
  }
  if (listed.kernels && listed.kernels->version != kKernelLibraryVersion) {
    listed.why_not = c10::str(
        "it was built for version ", listed.kernels->version, " of openhpu/kernel_library.h, and this is version ",
        kKernelLibraryVersion, ": build it again");
    listed.kernels = nullptr;
  }
}

std::unique_ptr<UserKernel> find_in(const KernelLibrary& library, const std::string& guid, std::string source) {
  auto kernel = std::make_unique<UserKernel>();
  kernel->guid = guid;
  kernel->source = std::move(source);
  if (!library.find(library.library, guid.c_str(), &kernel->library)) return nullptr;
  return kernel;
}

// In the order of the sources. Null: none has it.
const UserKernel* look_up(Kernels& all, const std::string& guid) {
  for (const auto* registered : {&all.functions, &all.python})
    if (const auto found = registered->find(guid); found != registered->end()) return found->second.get();
  if (const auto found = all.found.find(guid); found != all.found.end()) return found->second.get();
  std::unique_ptr<UserKernel> kernel;
  for (auto& listed : all.libraries) {
    open_library(all, listed);
    if (listed.kernels && (kernel = find_in(*listed.kernels, guid, listed.path))) break;
  }
  if (!kernel) kernel = find_in(vendor_kernels(), guid, "table of the vendor's guids");
  if (!kernel) return nullptr;
  return (all.found[guid] = std::move(kernel)).get();
}

std::string places_searched(const Kernels& all) {
  std::string text = c10::str(
      all.functions.size(), " C++ functions and ", all.python.size(),
      " Python functions are registered, for other "
      "guids; GC_KERNEL_PATH lists ");
  if (all.libraries.empty()) text += "no library";
  for (const auto& listed : all.libraries)
    text += c10::str(
        &listed == &all.libraries.front() ? "" : ", ", listed.path, " (",
        listed.kernels ? "it has no kernel for this guid" : listed.why_not, ")");
  return text + "; the table of the vendor's guids (docs/vendor-kernels.md) does not name it";
}

constexpr const char* kHowToGiveOne =
    "Give it one: in C++, OPENHPU_CUSTOM_KERNEL(guid, function) of openhpu/custom_kernel.h; in Python, "
    "@openhpu.custom_kernel(guid); or list a library that has it in GC_KERNEL_PATH.";

Operand describe(const at::Tensor& t) {
  if (!t.defined()) return {nullptr, nullptr, nullptr, 0, DType::Float32};
  const auto& impl = *t.unsafeGetTensorImpl();
  return {
      impl.numel() > 0 ? t.mutable_data_ptr() : nullptr, impl.sizes().data(), impl.strides().data(),
      static_cast<int32_t>(impl.dim()), static_cast<DType>(t.scalar_type())};
}

// The index of the device whose command the calling thread runs; 0 if it runs none.
int running_device() {
  for (auto* d : device::DeviceRegistry::instance().open())
    if (d->queue().on_worker()) return d->index();
  return 0;
}

// What a kernel throws, as an error that names it.
template <class Run>
void attempt(const UserOp& op, const char* what, Run&& run) {
  const auto failed = [&](const std::string& why) {
    TORCH_CHECK(false, op.schema, ": ", what, " for the guid '", op.guid, "' failed: ", why);
  };
  try {
    run();
  } catch (const c10::Error& error) {
    failed(error.what_without_backtrace());
  } catch (const std::exception& error) {
    failed(error.what());
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (...) {
    failed("it threw an object that is no std::exception");
  }
}

using Operands = c10::SmallVector<Operand, 6>;

// `operands`: so many inputs, then the outputs.
void call_kernel(
    UserOp& op, const Operands& operands, size_t inputs, const void* params, size_t params_size, int device) {
  const auto& kernel = kernel_of(op);
  const KernelCall call{op.schema.c_str(),        op.guid.c_str(), operands.data(), inputs, operands.data() + inputs,
                        operands.size() - inputs, params,          params_size,     device};
  attempt(op, "its kernel", [&] {
    if (C10_UNLIKELY(g_check_kernels.load(std::memory_order_relaxed))) {
      run_checked(kernel, call);
      return;
    }
    const FaultScope scope(call);
    kernel(call);
  });
}

}  // namespace

bool is_user_kernel(const Operator& op) { return op.is_called_by(&call_user_kernel); }

void add_user_kernel(const char* guid, CustomKernel kernel) {
  auto& all = kernels();
  std::lock_guard lock(all.mutex);
  if (!kernel) throw std::invalid_argument(std::string("the kernel for the guid '") + guid + "' is a null pointer");
  auto& slot = all.functions[guid];
  if (slot)
    throw std::invalid_argument(
        std::string("a C++ function is registered for the guid '") + guid +
        "' already: a guid has one kernel. Load one of the two libraries only, or choose another guid");
  slot.reset(new UserKernel{guid, "C++ function", kernel, {}, false});
}

void note_user_kernel(const char* guid, const char* error) noexcept {
  auto& all = kernels();
  std::lock_guard lock(all.mutex);
  all.errors[guid] = error;
}

void add_python_kernel(const char* guid, LibraryKernel kernel) {
  auto& all = kernels();
  std::lock_guard lock(all.mutex);
  auto& slot = all.python[guid];
  if (slot)
    throw std::invalid_argument(
        std::string("a Python function is registered for the guid '") + guid + "' already: a guid has one kernel");
  slot.reset(new UserKernel{guid, "Python function", nullptr, kernel, true});
}

void set_kernel_libraries(std::vector<std::string> paths) {
  auto& all = kernels();
  std::lock_guard lock(all.mutex);
  for (auto& path : paths) {
    const auto known = std::ranges::any_of(all.libraries, [&](const Listed& listed) { return listed.path == path; });
    if (!known) all.libraries.push_back({std::move(path), false, nullptr, {}});
  }
}

void set_library_runner(const LibraryRunner* runner) {
  TORCH_CHECK(
      runner && runner->version == kKernelLibraryVersion, "a runner of kernel libraries is of version ",
      runner ? runner->version : 0, ", and this core expects version ", kKernelLibraryVersion,
      " of openhpu/kernel_library.h: build the runner again");
  auto& all = kernels();
  std::lock_guard lock(all.mutex);
  all.runner = runner;
  for (auto& listed : all.libraries) listed.asked = listed.kernels != nullptr;
}

void add_user_op(UserOp& op) {
  auto& all = kernels();
  std::lock_guard lock(all.mutex);
  all.ops[op.key] = &op;
}

UserOp* user_op_of(const std::string& key) {
  auto& all = kernels();
  std::lock_guard lock(all.mutex);
  const auto found = all.ops.find(key);
  return found == all.ops.end() ? nullptr : found->second;
}

const UserKernel& kernel_of(UserOp& op) {
  if (const auto* known = op.kernel.load(std::memory_order_acquire)) return *known;
  auto& all = kernels();
  std::lock_guard lock(all.mutex);
  if (const auto wrong = all.errors.find(op.guid); wrong != all.errors.end())
    TORCH_CHECK(false, op.schema, ": ", wrong->second);
  const UserKernel* found = nullptr;
  attempt(op, "the search of a kernel", [&] { found = look_up(all, op.guid); });
  TORCH_CHECK(
      found, op.schema, " wants a kernel for the guid '", op.guid, "', and there is none: ", places_searched(all), ". ",
      kHowToGiveOne);
  op.kernel.store(found, std::memory_order_release);
  return *found;
}

UserCall::UserCall(const c10::IValue* args) {
  const auto tensors = [](const c10::IValue& list) {
    std::vector<at::Tensor> out;
    for (const auto& e : list.toListRef()) out.push_back(e.isNone() ? at::Tensor() : e.toTensor());
    return out;
  };
  inputs = tensors(args[1]);
  written = tensors(args[2]);
  sizes = args[3].toIntVector();
  const auto layout = args[4].toIntVector();
  params_size = static_cast<size_t>(layout[0]);
  const int64_t* next = sizes.data();
  for (size_t i = 1; i < layout.size(); i += 3) {
    const auto dim = static_cast<size_t>(layout[i + 1]);
    results.push_back({static_cast<at::ScalarType>(layout[i]), {next, dim}, layout[i + 2]});
    next += dim;
  }
  for (const auto& word : args[5].toListRef()) words.push_back(static_cast<uint64_t>(word.toInt()));
}

void run_user_kernel(
    UserOp& op, c10::ArrayRef<at::Tensor> inputs, c10::ArrayRef<at::Tensor> outputs, const void* params,
    size_t params_size, int device) {
  Operands operands;
  for (const auto& t : inputs) operands.push_back(describe(t));
  for (const auto& t : outputs) operands.push_back(describe(t));
  call_kernel(op, operands, inputs.size(), params, params_size, device);
}

void run_user_kernel(
    const ShapeEntry& entry, const OperandMemory* memory, const uint64_t* numbers, const OutputMemory* outputs,
    int device) {
  const auto& call = *entry.call;
  Operands operands;
  const auto add = [&](char* data, const auto& of, int64_t offset) {
    const bool empty = std::ranges::find(of.sizes, 0) != of.sizes.end();
    operands.push_back(
        {empty ? nullptr : data + offset * static_cast<int64_t>(of.dtype.itemsize()), of.sizes.data(),
         of.strides.data(), static_cast<int32_t>(of.sizes.size()),
         static_cast<DType>(c10::typeMetaToScalarType(of.dtype))});
  };
  for (const int32_t k : call.args[UserCall::kInputs].elements) {
    if (k < 0)
      operands.push_back(describe({}));
    else
      add(static_cast<char*>(memory[k].data), call.operands[k], memory[k].offset);
  }
  const size_t inputs = operands.size();
  for (const auto& spec : entry.outputs) add(static_cast<char*>(outputs[spec.index].data), spec, spec.offset);
  call_kernel(*call.user, operands, inputs, call.user_params ? numbers : nullptr, call.user_params, device);
}

void check_user_kernel(UserOp& op, const UserCall& call, int device) {
  const auto& kernel = kernel_of(op);
  if (kernel.function || !kernel.library.check) return;
  std::vector<Operand> operands;
  std::vector<std::vector<int64_t>> strides;
  const auto add = [&](c10::IntArrayRef sizes, at::ScalarType dtype) {
    auto& of = strides.emplace_back(sizes.size(), 1);
    for (size_t d = sizes.size(); d-- > 1;) of[d - 1] = of[d] * sizes[d];
    operands.push_back(
        {nullptr, sizes.data(), of.data(), static_cast<int32_t>(sizes.size()), static_cast<DType>(dtype)});
  };
  for (const auto& t : call.inputs) t.defined() ? add(t.sizes(), t.scalar_type()) : add({}, at::kFloat);
  for (const auto& result : call.results) add(result.sizes, result.dtype);
  const KernelCall described{
      op.schema.c_str(),
      op.guid.c_str(),
      operands.data(),
      call.inputs.size(),
      operands.data() + call.inputs.size(),
      call.results.size(),
      call.params_size ? call.words.data() : nullptr,
      call.params_size,
      device};
  attempt(op, "its kernel", [&] { kernel.library.check(kernel.library.context, described); });
}

void call_user_kernel(const Operator& op, c10::Stack& stack) {
  const UserCall call(stack.data() + stack.size() - UserCall::kArgs);
  // First, so that the host knows which allocation becomes which result.
  c10::SmallVector<at::Tensor, 4> outputs;
  for (const auto& result : call.results)
    if (result.written < 0)
      outputs.push_back(at::empty(result.sizes, at::TensorOptions().dtype(result.dtype).device(c10::kCPU)));
  const auto prepared = [](const at::Tensor& t) {
    return t.defined() ? t.resolve_conj().resolve_neg().contiguous() : t;
  };
  c10::SmallVector<at::Tensor, 6> inputs;
  for (const auto& t : call.inputs) inputs.push_back(prepared(t));
  // An input may lie in the memory of what is written.
  c10::List<at::Tensor> results;
  size_t fresh = 0;
  c10::SmallVector<at::Tensor, 4> given;
  for (const auto& result : call.results) {
    if (result.written < 0) {
      given.push_back(outputs[fresh++]);
      results.push_back(given.back());
    } else {
      const auto& target = call.written[result.written];
      given.push_back(target.contiguous().clone());
      results.push_back(target);
    }
  }
  const int device = running_device();
  auto* user = user_op_of(stack[stack.size() - UserCall::kArgs].toStringRef());
  TORCH_INTERNAL_ASSERT(user, op.name());
  run_user_kernel(*user, inputs, given, call.params_size ? call.words.data() : nullptr, call.params_size, device);
  for (size_t i = 0; i < call.results.size(); ++i)
    if (const auto written = call.results[i].written; written >= 0) call.written[written].copy_(given[i]);
  stack.clear();
  stack.emplace_back(std::move(results));
}

void run_user_kernel_of_recipe(
    const char* key, void** op, c10::ArrayRef<at::Tensor> inputs, c10::ArrayRef<at::Tensor> outputs,
    const int64_t* words, size_t params_size) {
  if (!*op) *op = user_op_of(key);
  auto* known = static_cast<UserOp*>(*op);
  TORCH_CHECK(known, "a recipe calls the user operator ", key, ", which is not registered in this process");
  run_user_kernel(*known, inputs, outputs, params_size ? words : nullptr, params_size, running_device());
}

}  // namespace openhpu
