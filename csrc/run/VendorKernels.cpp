#include "run/VendorKernels.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "run/VendorFamilies.h"

namespace openhpu::vendor {
namespace {

struct Dtype {
  const char* name;  // as guids end
  ScalarType type;
};
constexpr Dtype kDtypes[] = {
    {"f32", at::kFloat}, {"bf16", at::kBFloat16}, {"f16", at::kHalf}, {"i8", at::kChar},    {"u8", at::kByte},
    {"i16", at::kShort}, {"u16", at::kUInt16},    {"i32", at::kInt},  {"u32", at::kUInt32}, {"i64", at::kLong},
};
std::optional<ScalarType> dtype_of(std::string_view name) {
  for (const auto& dtype : kDtypes)
    if (name == dtype.name) return dtype.type;
  return std::nullopt;
}

// Families of which a document names the guid, but nothing tells what each operand is. A guess would compute something.
const char* why_none(std::string_view family) {
  if (family == "batch_norm") return "no public document gives the order of its operands";
  return nullptr;
}

// --- a guid, and a call of one ---
std::optional<Guid> parse(std::string_view text) {
  Guid guid{nullptr, std::nullopt};
  auto name = text;
  if (const auto end = name.rfind('_'); end != std::string_view::npos) {
    guid.dtype = dtype_of(name.substr(end + 1));
    if (guid.dtype) name = name.substr(0, end);
  }
  if (name.starts_with("cast_") && name.ends_with("_to")) {
    const auto from = dtype_of(name.substr(5, name.size() - 8));
    if (!from || !guid.dtype) return std::nullopt;
    guid.to = *std::exchange(guid.dtype, from);
    name = "cast";
  } else if (name.ends_with("_fwd")) {
    name = name.substr(0, name.size() - 4);
  }
  if (const char* why = why_none(name))
    require(false, std::string(why) + "; give it a kernel of your own (docs/vendor-kernels.md)");
  for (const auto& family : families()) {
    if (name != family.name) continue;
    guid.family = &family;
    if ((name == "cast") != (guid.to != ScalarType::Undefined)) return std::nullopt;
    if (!guid.dtype) return *family.dtypes ? std::nullopt : std::optional(guid);
    std::istringstream dtypes(family.dtypes);
    bool has_dtype = false;
    bool has_other = guid.to == ScalarType::Undefined;
    for (std::string dtype; dtypes >> dtype;) {
      has_dtype |= dtype_of(dtype) == guid.dtype;
      has_other |= dtype_of(dtype) == guid.to;
    }
    return has_dtype && has_other ? std::optional(guid) : std::nullopt;
  }
  return std::nullopt;
}

bool is_index(DType dtype) { return dtype == DType::Int32 || dtype == DType::Int64; }
bool is_mask(DType dtype) { return dtype == DType::Bool || dtype == DType::Int8 || dtype == DType::UInt8; }

// Throws std::invalid_argument for operands or params that the kernel does not take.
void check(void* context, const KernelCall& call) {
  const auto& guid = *static_cast<const Guid*>(context);
  const auto& family = *guid.family;
  const std::string takes = std::string("it takes `") + family.operands + "` (docs/vendor-kernels.md)";
  require(
      call.input_count == family.inputs && call.output_count == family.outputs,
      takes + ", but the operator gives " + std::to_string(call.input_count) + " inputs and " +
          std::to_string(call.output_count) + " outputs");
  for (size_t i = 0; i < call.input_count; ++i)
    require(call.inputs[i].sizes, takes + ", and input " + std::to_string(i) + " is missing");
  const bool by_result = family.kind == Operands::Result || family.inputs == 0;
  const auto expected =
      guid.dtype ? static_cast<DType>(*guid.dtype) : (by_result ? call.outputs : call.inputs)[0].dtype;
  const auto fits = [&](bool does, const Operand& operand, const char* kind, size_t i) {
    require(
        does, takes + ", and " + kind + " " + std::to_string(i) + " is of " +
                  c10::toString(static_cast<ScalarType>(operand.dtype)));
  };
  for (size_t i = 0; i < call.input_count; ++i) {
    const auto& input = call.inputs[i];
    const bool indices = by_result || (family.kind == Operands::IndexIn && i > 0);
    fits(indices ? is_index(input.dtype) : input.dtype == expected, input, "input", i);
  }
  for (size_t i = 0; i < call.output_count; ++i) {
    const auto& output = call.outputs[i];
    const bool last = i + 1 == call.output_count;
    if (guid.to != ScalarType::Undefined)
      fits(output.dtype == static_cast<DType>(guid.to), output, "output", i);
    else if (family.kind == Operands::IndexOut && last)
      fits(is_index(output.dtype), output, "output", i);
    else if (family.kind == Operands::Mask)
      fits(is_mask(output.dtype), output, "output", i);
    else
      fits(output.dtype == expected, output, "output", i);
  }
  const auto& sizes = family.params.sizes;
  const bool missing = call.params_size == 0;
  require(
      missing ? sizes.empty() || family.params.optional : std::ranges::find(sizes, call.params_size) != sizes.end(),
      sizes.empty() ? "it takes no params, but the operator gives " + std::to_string(call.params_size) + " bytes"
                    : std::string("its params are ") + family.params.name + ", of " + std::to_string(sizes[0]) +
                          " bytes, but the operator gives " + std::to_string(call.params_size) + " bytes");
}

Tensor over(const Operand& operand) {
  const auto options = at::TensorOptions().dtype(static_cast<ScalarType>(operand.dtype));
  const c10::IntArrayRef sizes(operand.sizes, static_cast<size_t>(operand.dim));
  return operand.data ? at::from_blob(operand.data, sizes, options) : at::empty(sizes, options);
}

void run(void* context, const KernelCall& call) {
  check(context, call);
  const auto& guid = *static_cast<const Guid*>(context);
  c10::InferenceMode no_autograd(true);
  Call running{guid, call, {}, {}};
  for (size_t i = 0; i < call.input_count; ++i) running.in.push_back(over(call.inputs[i]));
  for (size_t i = 0; i < call.output_count; ++i) running.out.push_back(over(call.outputs[i]));
  guid.family->run(running);
}

bool find(void*, const char* text, LibraryKernel* kernel) {
  const auto guid = parse(text);
  if (!guid) return false;
  *kernel = {&run, &check, new Guid(*guid)};
  return true;
}

}  // namespace
}  // namespace openhpu::vendor

namespace openhpu {

const KernelLibrary& vendor_kernels() {
  static const KernelLibrary table{kKernelLibraryVersion, &vendor::find, nullptr};
  return table;
}

std::vector<VendorFamily> vendor_families() {
  std::vector<VendorFamily> found;
  for (const auto& family : vendor::families()) {
    std::string params = family.params.name;
    if (family.params.optional) params += ", optional";
    found.push_back({family.name, family.dtypes, family.operands, params, family.computes, family.source});
  }
  return found;
}

}  // namespace openhpu
