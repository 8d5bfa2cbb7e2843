#include "call/Fallback.h"

#include "device/shared.h"
#include "observe/events.h"
#include "observe/site.h"
#include "run/Tensors.h"
#include "torch/HPUDevice.h"

namespace openhpu {
namespace {

using c10::ScalarType;

constexpr uint64_t bit(ScalarType t) { return uint64_t{1} << static_cast<int>(t); }

struct Tables {
  std::mutex mutex;
  std::unordered_map<std::string, uint64_t> native;
  std::unordered_map<std::string, uint64_t> native_stems;
  std::unordered_map<std::string, uint64_t> integer_stems;
  bool loaded = false;
  bool allow_all = true;
  std::set<std::string> allowed;  // "none": no operator
  std::map<std::string, uint64_t> counts;
};
Tables& tables() { return device::held_across_forks<Tables>(); }
std::atomic<uint64_t> version{1};

// Under the tables' mutex. Most rows name the same few sets of dtypes.
uint64_t parse_dtypes(const std::string& text) {
  static auto& known = *new std::unordered_map<std::string, uint64_t>();
  auto [it, is_new] = known.try_emplace(text);
  std::istringstream in(is_new ? text : "");
  for (std::string name; in >> name;) {
    for (int i = 0; i < static_cast<int>(ScalarType::NumOptions); ++i)
      if (name == c10::toString(static_cast<ScalarType>(i))) it->second |= uint64_t{1} << i;
  }
  return it->second;
}

// What all overloads and forms of an operator have in common: its name without namespace, overload, and the underscore
// of the form that writes in place.
std::string stem_of(const std::string& op) {
  const auto colons = op.find("::");
  const size_t begin = colons == std::string::npos ? 0 : colons + 2;
  std::string stem = op.substr(begin, op.find('.', begin) - begin);
  if (stem.size() > 1 && stem.back() == '_' && stem.compare(0, 2, "__") != 0) stem.pop_back();
  return stem;
}

using Twins = std::vector<std::pair<at::Tensor, at::Tensor>>;  // operand, and what stands for it on the host

bool is_on_device(const at::Tensor& t) { return t.defined() && t.device().type() == c10::kHPU; }

c10::Stack call_on_twins(
    const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> args, const TwinsOnHost& layout, Twins& twins) {
  const auto twin = [&](const at::Tensor& t) {
    twins.emplace_back(t, is_on_device(t) ? layout.make(t) : t);
    return twins.back().second;
  };
  c10::Stack stack;
  for (const auto& v : args) stack.push_back(v.isDevice() ? c10::IValue(c10::Device(c10::kCPU)) : map_tensors(v, twin));
  c10::InferenceMode no_autograd(true);
  op.callBoxed(stack);
  return stack;
}

}  // namespace

uint64_t fallback_version() noexcept { return version.load(std::memory_order_acquire); }

void set_native_ops(const std::vector<std::pair<std::string, std::string>>& rows) {
  auto& t = tables();
  std::lock_guard<std::mutex> lock(t.mutex);
  t.native.clear();
  t.native_stems.clear();
  for (const auto& [name, text] : rows) {
    uint64_t dtypes = parse_dtypes(text);
    // A Gaudi computes doubles as float32; here they stay exact. Masks and indices accompany the listed dtypes in every
    // operator.
    if (dtypes & bit(ScalarType::Float)) dtypes |= bit(ScalarType::Double);
    if (dtypes) dtypes |= bit(ScalarType::Bool) | bit(ScalarType::Long) | bit(ScalarType::Int);
    t.native["aten::" + name] = dtypes;
    t.native_stems[stem_of(name)] |= dtypes;
  }
  t.loaded = true;
  version.fetch_add(1, std::memory_order_release);
}

void set_integer_ops(const std::vector<std::pair<std::string, std::string>>& rows) {
  auto& t = tables();
  std::lock_guard<std::mutex> lock(t.mutex);
  t.integer_stems.clear();
  for (const auto& [name, text] : rows) {
    uint64_t dtypes = parse_dtypes(text);
    if (dtypes & bit(ScalarType::Int)) dtypes |= bit(ScalarType::Long);
    t.integer_stems[stem_of(name)] |= dtypes;
  }
}

bool computes_in(const std::string& op, ScalarType integer) {
  auto& t = tables();
  std::lock_guard<std::mutex> lock(t.mutex);
  auto it = t.integer_stems.find(stem_of(op));
  return it != t.integer_stems.end() && (it->second & bit(integer));
}

void set_fallback_policy(const std::string& place_on_cpu) {
  auto& t = tables();
  std::lock_guard<std::mutex> lock(t.mutex);
  t.allow_all = place_on_cpu.empty();
  t.allowed.clear();
  std::istringstream in(place_on_cpu);
  for (std::string name; std::getline(in, name, ',');) t.allowed.insert(name);
}

uint64_t native_dtypes(const std::string& op) {
  auto& t = tables();
  std::lock_guard<std::mutex> lock(t.mutex);
  if (!t.loaded) return ~uint64_t{0};
  if (auto it = t.native.find(op); it != t.native.end()) return it->second;
  // The table names some forms of an operator only (silu_backward.grad_input, lgamma.out). They are one kernel.
  if (op.rfind("aten::", 0) != 0) return 0;
  auto it = t.native_stems.find(stem_of(op));
  return it == t.native_stems.end() ? 0 : it->second;
}

void note_fallback(const std::string& op, int scalar_type) {
  auto& t = tables();
  const auto colons = op.find("::");
  const std::string bare = colons == std::string::npos ? op : op.substr(colons + 2);
  const std::string base = bare.substr(0, bare.find('.'));
  const std::string dtype = scalar_type >= 0 ? c10::toString(static_cast<ScalarType>(scalar_type)) : "";
  uint64_t n = 0;
  {
    std::lock_guard<std::mutex> lock(t.mutex);
    const bool allowed = t.allow_all || t.allowed.count(op) || t.allowed.count(bare) || t.allowed.count(base) ||
                         t.allowed.count(op.substr(0, op.find('.')));
    TORCH_CHECK(
        allowed, "CPU fallback of ", op,
        " is forbidden by PT_HPU_PLACE_ON_CPU: the operator is not native on the chosen", " device generation",
        dtype.empty() ? "" : " for dtype ", dtype,
        ". Use another operator or dtype, add it to PT_HPU_PLACE_ON_CPU, or unset that variable.");
    n = ++t.counts[op];
  }
  count(Counter::OpsFallback);
  if (listening(kCpuFallback))
    emit(kCpuFallback, {{"op", op}, {"dtype", dtype}, {"count", static_cast<int64_t>(n)}}, current_site());
}

std::map<std::string, uint64_t> fallback_ops() {
  auto& t = tables();
  std::lock_guard<std::mutex> lock(t.mutex);
  return t.counts;
}

void run_on_host(const c10::OperatorHandle& op, c10::Stack& stack, const TwinsOnHost& layout) {
  const auto& arguments = op.schema().arguments();
  const auto args = torch::jit::last(stack, arguments.size());
  c10::DeviceIndex index = current_device();
  int dtype = -1;
  for (const auto& value : args)
    for_each_tensor(value, [&](const at::Tensor& t) {
      if (!is_on_device(t)) return;
      index = t.device().index();
      if (dtype < 0) dtype = static_cast<int>(t.scalar_type());
    });
  note_fallback(c10::toString(op.operator_name()), dtype);
  synchronize(index);
  device::MemoryPool::AccessScope access(device_of(index).memory());
  Twins twins;
  const c10::Stack results = call_on_twins(op, args, layout, twins);
  for (size_t i = 0; i < args.size() && layout.take_over; ++i) {
    const auto* alias = arguments[i].alias_info();
    if (!alias || !alias->isWrite() || !args[i].isTensor()) continue;
    for (const auto& [operand, twin] : twins)
      if (operand.is_same(args[i].toTensor())) layout.take_over(operand, twin, index);
  }
  stack.resize(stack.size() - args.size());
  for (const auto& value : results) {
    if (!value.isTensor() || !value.toTensor().defined()) {
      stack.emplace_back(value);
      continue;
    }
    const auto& result = value.toTensor();
    const auto known =
        std::find_if(twins.begin(), twins.end(), [&](const auto& t) { return t.second.is_same(result); });
    stack.emplace_back(known == twins.end() ? layout.adopt(result, index) : known->first);
  }
}

bool register_where_cpu_has(
    c10::DispatchKey cpu, c10::DispatchKey key, const c10::KernelFunction& kernel, const char* what) {
  auto& dispatcher = c10::Dispatcher::singleton();
  static auto* handles = new std::vector<c10::RegistrationHandleRAII>();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (op && op->hasKernelForDispatchKey(cpu) && !op->hasKernelForDispatchKey(key))
      handles->push_back(dispatcher.registerImpl(name, key, kernel, std::nullopt, nullptr, what));
  }
  return true;
}

}  // namespace openhpu
