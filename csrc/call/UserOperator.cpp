#include "call/UserOperator.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/_to_copy.h>
#include <torch/library.h>

#include "call/OpCall.h"
#include "record/Capture.h"
#include "record/Lazy.h"

namespace openhpu {
namespace {

using habana::custom_op::Registration;

struct Operators {
  std::mutex mutex;
  std::unordered_map<std::string, std::unique_ptr<UserOperator>> by_key;
  std::unordered_map<std::string, std::string> wrong;  // by key
  std::vector<std::string> errors;                     // that nobody was told of
};

Operators& operators() {
  static auto* all = new Operators();
  return *all;
}

std::string key_of(const std::string& schema, bool legacy) { return legacy ? schema + " (hpu_custom_op.h)" : schema; }

// What traces, reports and recorded graphs know an operator by: its schema and its guid.
std::string name_of(const Registration& registration) {
  return c10::str(registration.schema, " (", registration.guid, registration.legacy ? ", hpu_custom_op.h" : "", ")");
}

c10::OperatorHandle user_kernel_handle() { return c10::Dispatcher::singleton().findSchemaOrThrow(UserCall::kName, ""); }

// "custom_op::scale.out" in two.
c10::OperatorName in_two(const std::string& schema) {
  const size_t dot = schema.find('.', schema.rfind(':') == std::string::npos ? 0 : schema.rfind(':'));
  return dot == std::string::npos ? c10::OperatorName(schema, "")
                                  : c10::OperatorName(schema.substr(0, dot), schema.substr(dot + 1));
}

void add(Registration registration, const char* torch) noexcept {
  auto& all = operators();
  const auto key = key_of(registration.schema, registration.legacy);
  const std::string of_core = habana::custom_op::detail::kTorch;
  std::lock_guard lock(all.mutex);
  std::string error;
  if (torch != of_core)
    error = c10::str(
        registration.schema, ": its library was built for PyTorch ", torch, ", and this is PyTorch ", of_core,
        ": build it again in this environment");
  else if (!registration.error.empty())
    error = registration.schema + ": " + registration.error;
  else if (!registration.output_meta)
    error = registration.schema + ": it was registered without a callback that gives dtype and sizes of its results";
  else if (const auto known = all.by_key.find(key); known != all.by_key.end())
    error = c10::str(
        registration.schema, " was registered twice, for the guids '", known->second->registration().guid, "' and '",
        registration.guid, "': load only one of the libraries that register it");
  if (error.empty()) {
    all.by_key[key] = std::make_unique<UserOperator>(std::move(registration));
  } else {
    all.wrong[key] = error;
    all.errors.push_back(error);
  }
}

const void* find(const std::string& schema, bool legacy) {
  auto& all = operators();
  std::lock_guard lock(all.mutex);
  const auto key = key_of(schema, legacy);
  if (const auto wrong = all.wrong.find(key); wrong != all.wrong.end()) TORCH_CHECK(false, wrong->second);
  const auto found = all.by_key.find(key);
  if (found != all.by_key.end()) return found->second->descriptor();
  const char* how = legacy ? "REGISTER_CUSTOM_OP_ATTRIBUTES of hpu_custom_op.h"
                           : "habana::custom_op::registerUserCustomOp of hpu_custom_op_pt2.h";
  const char* other =
      legacy ? "UserCustomOpDescriptor of hpu_custom_op_pt2.h" : "HabanaCustomOpDescriptor of hpu_custom_op.h";
  TORCH_CHECK(
      false, "no user operator ", schema, " is registered: register it with ", how, " before it is called",
      all.by_key.contains(key_of(schema, !legacy)) ? c10::str("; it is registered for ", other) : std::string());
}

std::vector<at::Tensor> execute(const void* op, const std::vector<c10::IValue>& inputs) {
  return const_cast<UserOperator*>(static_cast<const UserOperator*>(op))->execute(inputs);
}

// What a callback of the user throws, with the operator's name.
template <class Call>
auto of_callback(const UserOp& op, const char* what, Call&& call) {
  try {
    return call();
  } catch (const c10::Error& error) {
    TORCH_CHECK(false, op.schema, ": its callback for ", what, " failed: ", error.what_without_backtrace());
  } catch (const std::exception& error) {
    TORCH_CHECK(false, op.schema, ": its callback for ", what, " failed: ", error.what());
  }
}

// Whether the kernel can be called on the operands' memory: all lie row by row, and none is written.
bool takes_memory(const ShapeEntry& entry) {
  const auto& call = *entry.call;
  return call.recordable && !call.any_written && std::ranges::all_of(call.operands, [](const auto& o) {
           int64_t stride = 1;
           for (size_t d = o.sizes.size(); d-- > 0;) {
             if (o.sizes[d] != 1 && o.strides[d] != stride) return false;
             stride *= o.sizes[d];
           }
           return !o.conj && !o.neg && !o.on_host;
         });
}

// What the host knows of the results. Throws if the kernel refuses such a call.
std::shared_ptr<const ShapeEntry> describe_call(
    UserOp& op, const OpKernel& kernel, const c10::IValue* args, int device) {
  const UserCall call(args);
  check_user_kernel(op, call, device);
  auto entry = new_entry();
  entry->call = std::make_unique<CallTemplate>(openhpu::describe_call(kernel, args));
  // Operands in order of appearance, which begin with the inputs.
  const auto inputs =
      static_cast<size_t>(std::ranges::count_if(call.inputs, [](const at::Tensor& t) { return t.defined(); }));
  for (const auto& result : call.results) {
    auto& output = entry->outputs.emplace_back();
    if (result.written >= 0) {
      output.kind = OutputSpec::Kind::Argument;
      output.index = static_cast<uint32_t>(inputs + result.written);
      continue;
    }
    output.index = static_cast<uint32_t>(entry->storages.size());
    output.dtype = c10::scalarTypeToTypeMeta(result.dtype);
    output.sizes.assign(result.sizes.begin(), result.sizes.end());
    output.strides.assign(result.sizes.size(), 1);
    for (size_t d = result.sizes.size(); d-- > 1;)
      output.strides[d - 1] = output.strides[d] * std::max<int64_t>(result.sizes[d], 1);
    const auto nbytes = static_cast<size_t>(c10::multiply_integers(result.sizes)) * output.dtype.itemsize();
    entry->storages.push_back({nbytes, output.index});
    entry->call->largest = std::max(entry->call->largest, nbytes);
  }
  entry->returns.push_back(static_cast<int32_t>(entry->outputs.size()));
  if (takes_memory(*entry)) {
    entry->call->user = &op;
    entry->call->user_params = call.params_size;
  }
  return entry;
}

TORCH_LIBRARY_FRAGMENT(openhpu, m) {
  m.def(
      "user_kernel(str op, Tensor?[] inputs, Tensor(a!)[] written, int[] sizes, int[] layout, Scalar[] words) -> "
      "Tensor[]");
}

}  // namespace

UserOperator::UserOperator(Registration registration)
    : registration_(std::move(registration)),
      op_{name_of(registration_), registration_.schema, registration_.guid},
      kernel_(user_kernel_handle(), op_.key),
      key_(op_.key) {
  add_user_op(op_);
}

const c10::FunctionSchema& UserOperator::schema() {
  std::call_once(defined_, [&] {
    handle_ = c10::Dispatcher::singleton().findSchema(in_two(op_.schema));
    const auto name = op_.schema.substr(op_.schema.find("::") == std::string::npos ? 0 : op_.schema.find("::") + 2);
    TORCH_CHECK(
        handle_, op_.schema,
        " was registered as a user operator, but no schema of this name is defined: define it, "
        "TORCH_LIBRARY(",
        op_.schema.substr(0, op_.schema.find("::")), ", m) { m.def(\"", name, "(Tensor self) -> Tensor\"); }");
    const auto& arguments = handle_->schema().arguments();
    for (const auto& returned : handle_->schema().returns()) {
      int64_t alias = -1;
      if (const auto* info = returned.alias_info(); info && info->isWrite())
        for (size_t k = 0; k < arguments.size(); ++k)
          if (arguments[k].alias_info() && *arguments[k].alias_info() == *info) alias = static_cast<int64_t>(k);
      aliases_.push_back(alias);
    }
    for (const auto& argument : arguments) writes_only_.push_back(argument.is_out());
  });
  return handle_->schema();
}

int64_t UserOperator::aliased(size_t i, size_t input_count) const {
  const bool in_order = input_count == writes_only_.size();  // `execute` got what the schema takes
  return in_order && i < aliases_.size() ? aliases_[i] : -1;
}

habana::PartialOutputMetaDataVector UserOperator::metadata(const std::vector<c10::IValue>& inputs) const {
  auto metadata = of_callback(op_, "dtype and sizes of its results", [&] { return registration_.output_meta(inputs); });
  for (size_t i = 0; i < metadata.size(); ++i) {
    for (const auto size : metadata[i].shape)
      TORCH_CHECK(
          size >= 0, op_.schema, ": its callback gives result ", i, " the sizes ", c10::IntArrayRef(metadata[i].shape),
          "; sizes are 0 or more");
    const auto dtype = metadata[i].dtype;
    TORCH_CHECK(
        dtype >= c10::ScalarType::Byte && dtype < c10::ScalarType::Undefined && !c10::isQIntType(dtype), op_.schema,
        ": its callback gives result ", i, " the dtype ", static_cast<int>(dtype), ", which no tensor on hpu has");
  }
  return metadata;
}

std::vector<at::Tensor> UserOperator::execute(const std::vector<c10::IValue>& inputs) {
  calls_.fetch_add(1, std::memory_order_relaxed);
  const auto& schema = this->schema();
  kernel_of(op_);
  const auto metadata = this->metadata(inputs);
  std::shared_ptr<void> params;
  size_t params_size = 0;
  if (registration_.fill_params)
    params = of_callback(op_, "params", [&] { return registration_.fill_params(inputs, params_size); });
  TORCH_CHECK(
      params || params_size == 0, op_.schema, ": its callback for params returned none, but says that they have ",
      params_size, " bytes");

  c10::Device device(c10::kHPU, current_device());
  c10::SmallVector<at::Tensor, 6> tensors;  // undefined: an optional one that was not given
  const auto add_tensor = [&](const c10::IValue& value) {
    tensors.push_back(value.isNone() ? at::Tensor() : value.toTensor());
    auto& t = tensors.back();
    // A number, or in lazy mode any operand: moved, as on a Gaudi.
    if (t.defined() && t.is_cpu() && (t.dim() == 0 || lazy_mode())) t = at::_to_copy(t, t.options().device(device));
  };
  for (const auto& input : inputs)
    if (input.isTensor() && input.toTensor().defined() && input.toTensor().device().type() == c10::kHPU) {
      device = input.toTensor().device();
      break;
    }
  const auto is_operand = [&](size_t i) {
    const auto& value = inputs[i];
    if (registration_.legacy) return std::ranges::find(registration_.tensors, i) != registration_.tensors.end();
    if (i < writes_only_.size() && inputs.size() == writes_only_.size() && writes_only_[i]) return false;
    if (value.isTensor() || value.isTensorList() || value.isOptionalTensorList()) return true;
    // An optional tensor that was not given keeps its place.
    if (!value.isNone() || inputs.size() != schema.arguments().size()) return false;
    const auto type = schema.arguments()[i].real_type();
    return type->kind() == c10::TypeKind::OptionalType &&
           type->expectRef<c10::OptionalType>().getElementType()->kind() == c10::TypeKind::TensorType;
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_operand(i)) continue;
    const auto& value = inputs[i];
    if (value.isTensor() || value.isNone()) {
      add_tensor(value);
    } else {
      TORCH_CHECK(
          value.isList(), op_.schema, ": input ", i, " is described as a tensor, but it is of type ", value.tagKind());
      for (const auto& element : value.toListRef()) add_tensor(element);
    }
  }

  c10::SmallVector<uint64_t, 8> words((params_size + sizeof(uint64_t) - 1) / sizeof(uint64_t), 0);
  if (params_size) std::memcpy(words.data(), params.get(), params_size);

  Called called{inputs, metadata, tensors, words, params_size, device};
  if (lazy_mode() || writes_operand(called)) return call(called);
  // In eager mode most calls are known by their operands and results, without a list of arguments.
  std::vector<at::Tensor> made;
  OpCall direct(kernel_, tensors, words, &made);
  direct.signature.add(params_size);
  for (const auto& result : metadata) {
    direct.signature.add(static_cast<uint64_t>(result.dtype) << 32 | result.shape.size());
    for (const auto size : result.shape) direct.signature.add(static_cast<uint64_t>(size));
  }
  if (!direct.inspect_inputs() || current_capture(direct.device_index())) return call(called);
  const uint64_t hash = direct.signature.hash();
  if (auto entry = direct_.find(direct.signature, hash)) {
    count(Counter::OpsSubmitted);
    direct.submit(std::move(entry));
    return made;
  }
  auto results = call(called);
  direct_.insert(direct.signature, hash, called.entry);
  return results;
}

int64_t UserOperator::operand_of(const Called& called, size_t result) const {
  const auto argument = aliased(result, called.inputs.size());
  return argument >= 0 && called.inputs[argument].isTensor() ? argument : -1;
}

bool UserOperator::writes_operand(const Called& called) const {
  for (size_t i = 0; i < called.metadata.size(); ++i)
    if (operand_of(called, i) >= 0) return true;
  return false;
}

std::vector<at::Tensor> UserOperator::call(Called& called) {
  c10::List<std::optional<at::Tensor>> tensors;
  for (const auto& t : called.tensors) tensors.push_back(t.defined() ? std::optional(t) : std::nullopt);
  c10::List<at::Tensor> written;
  c10::List<int64_t> sizes, layout;
  layout.push_back(static_cast<int64_t>(called.params_size));
  for (size_t i = 0; i < called.metadata.size(); ++i) {
    const auto& result = called.metadata[i];
    int64_t place = -1;
    if (const auto argument = operand_of(called, i); argument >= 0) {
      const auto target = called.inputs[argument].toTensor();
      const c10::IntArrayRef wanted(result.shape);
      if (writes_only_[argument] && target.sizes() != wanted) at::native::resize_output(target, wanted);
      TORCH_CHECK(
          target.sizes() == wanted && target.scalar_type() == result.dtype, op_.schema, ": result ", i,
          " is its argument `", schema().arguments()[argument].name(), "`, ", target.scalar_type(), " ", target.sizes(),
          ", but its callback gives it ", result.dtype, " ", wanted);
      place = static_cast<int64_t>(written.size());
      written.push_back(target);
    }
    layout.push_back(static_cast<int64_t>(result.dtype));
    layout.push_back(static_cast<int64_t>(result.shape.size()));
    layout.push_back(place);
    for (const auto size : result.shape) sizes.push_back(size);
  }
  c10::impl::GenericList words{c10::NumberType::get()};
  for (const auto word : called.words) words.push_back(static_cast<int64_t>(word));

  std::array<c10::IValue, UserCall::kArgs> args{
      key_, std::move(tensors), std::move(written), std::move(sizes), std::move(layout), std::move(words)};
  c10::Stack results;
  OpCall call(kernel_, args.data(), &results, 0);
  TORCH_CHECK(call.inspect(), op_.schema, ": an operand is not on ", called.device);
  const uint64_t hash = call.signature.hash();
  called.entry = cache_.find(call.signature, hash);
  if (C10_UNLIKELY(!called.entry)) {
    called.entry = describe_call(op_, kernel_, args.data(), call.device_index());
    cache_.insert(call.signature, hash, called.entry);
  }
  auto* capture = current_capture(call.device_index());
  const bool recorded = lazy_mode() || capture;
  if (recorded) Recorder::of(device_of(call.device_index())).expect_user_kernel();
  if (!recorded || !call.record(called.entry)) {
    if (C10_UNLIKELY(capture != nullptr)) refuse_in_capture(op_.schema, kUnknownCallRemedy);
    count(Counter::OpsSubmitted);
    call.submit(called.entry);
  }
  return results[0].toTensorVector();
}

const Connection& user_operators() {
  static const Connection connection{
      .add_operator = &add,
      .find_operator = &find,
      .execute = &execute,
      .add_kernel = &add_user_kernel,
      .note_kernel = &note_user_kernel,
      .set_runner = &set_library_runner,
  };
  return connection;
}

std::vector<const UserOperator*> all_user_operators() {
  auto& all = operators();
  std::lock_guard lock(all.mutex);
  std::vector<const UserOperator*> found;
  for (const auto& [key, op] : all.by_key) found.push_back(op.get());
  return found;
}

std::vector<std::string> take_registration_errors() {
  auto& all = operators();
  std::lock_guard lock(all.mutex);
  return std::exchange(all.errors, {});
}

}  // namespace openhpu
