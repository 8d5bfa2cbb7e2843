// User operators of the tests, by hpu_custom_op_pt2.h.
#include <ATen/ops/empty.h>
#include <hpu_custom_op_pt2.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "openhpu/custom_kernel.h"

namespace {

using habana::PartialOutputMetaData;
using habana::PartialOutputMetaDataVector;
using habana::custom_op::registerUserCustomOp;
using habana::custom_op::UserCustomOpDescriptor;
using openhpu::KernelCall;

std::vector<at::Tensor> execute(const char* name, std::vector<c10::IValue> inputs) {
  auto descriptor = UserCustomOpDescriptor::getUserCustomOpDescriptor(name);
  return descriptor.execute(inputs);
}

PartialOutputMetaDataVector like_first(const at::Stack& inputs) {
  const auto self = inputs[0].toTensor();
  PartialOutputMetaData result{self.scalar_type(), self.sizes().vec()};
  return {result};
}

// --- a number in the params ---
struct ScaleParams {
  float factor;
};
void scale_kernel(const KernelCall& call) {
  const auto* x = call.input<float>(0);
  auto* y = call.output<float>(0);
  const float factor = call.params_as<ScaleParams>().factor;
  for (int64_t i = 0; i < call.outputs[0].numel(); ++i) y[i] = factor * x[i];
}
OPENHPU_CUSTOM_KERNEL("test_scale_f32", scale_kernel);
std::shared_ptr<void> scale_params(const at::Stack& inputs, size_t& size) {
  HPU_PARAMS_STUB(ScaleParams);
  params->factor = static_cast<float>(inputs[1].toScalar().toDouble());
  return params;
}
at::Tensor scale(const at::Tensor& self, double factor) { return execute("openhpu_test::scale", {self, factor})[0]; }
at::Tensor scale_meta(const at::Tensor& self, double) { return at::empty(self.sizes(), self.options()); }

// --- two results, of which the sizes depend on an argument ---
struct TopParams {
  int32_t k;
  int32_t descending;
  int64_t padding[2];
};
void top_kernel(const KernelCall& call) {
  const auto* x = call.input<float>(0);
  auto* values = call.output<float>(0);
  auto* indices = call.output<int64_t>(1);
  const auto& params = call.params_as<TopParams>();
  const int64_t columns = call.inputs[0].sizes[call.inputs[0].dim - 1];
  const int64_t rows = columns ? call.inputs[0].numel() / columns : 0;
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<int64_t> order(columns);
    for (int64_t i = 0; i < columns; ++i) order[i] = i;
    const auto* of = x + row * columns;
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return params.descending ? of[a] > of[b] : of[a] < of[b];
    });
    for (int32_t i = 0; i < params.k; ++i) {
      values[row * params.k + i] = of[order[i]];
      indices[row * params.k + i] = order[i];
    }
  }
}
OPENHPU_CUSTOM_KERNEL("test_top_f32", top_kernel);
PartialOutputMetaDataVector top_results(const at::Stack& inputs) {
  auto sizes = inputs[0].toTensor().sizes().vec();
  sizes.back() = inputs[1].toInt();
  return {{c10::ScalarType::Float, sizes}, {c10::ScalarType::Long, sizes}};
}
std::shared_ptr<void> top_params(const at::Stack& inputs, size_t& size) {
  HPU_PARAMS_STUB(TopParams);
  params->k = static_cast<int32_t>(inputs[1].toInt());
  params->descending = inputs[2].toBool();
  return params;
}
std::tuple<at::Tensor, at::Tensor> top(const at::Tensor& self, c10::SymInt k, bool descending) {
  auto results = execute("openhpu_test::top", {self, k.expect_int(), descending});
  return {results[0], results[1]};
}
std::tuple<at::Tensor, at::Tensor> top_meta(const at::Tensor& self, c10::SymInt k, bool) {
  auto sizes = self.sym_sizes().vec();
  sizes.back() = k;
  return {at::empty_symint(sizes, self.options()), at::empty_symint(sizes, self.options().dtype(at::kLong))};
}

// --- in place, and into `out` ---
void add_kernel(const KernelCall& call) {
  const auto* a = call.input<float>(0);
  const auto* b = call.input<float>(1);
  auto* y = call.output<float>(0);
  for (int64_t i = 0; i < call.outputs[0].numel(); ++i) y[i] = a[i] + b[i];
}
OPENHPU_CUSTOM_KERNEL("test_add_f32", add_kernel);
at::Tensor& add_(at::Tensor& self, const at::Tensor& other) {
  const auto result = execute("openhpu_test::add_", {self, other})[0];
  TORCH_CHECK(result.is_same(self), "the result of an in-place operator is its operand");
  return self;
}
at::Tensor& add_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  execute("openhpu_test::add.out", {self, other, out});
  return out;
}

// --- a list of tensors, and an optional one ---
void sum_kernel(const KernelCall& call) {
  auto* y = call.output<float>(0);
  for (int64_t i = 0; i < call.outputs[0].numel(); ++i) {
    y[i] = 0;
    for (size_t k = 0; k < call.input_count; ++k)
      if (call.inputs[k].data) y[i] += call.input<float>(k)[i];
  }
}
OPENHPU_CUSTOM_KERNEL("test_sum_f32", sum_kernel);
PartialOutputMetaDataVector like_first_of_list(const at::Stack& inputs) {
  const auto first = inputs[0].toTensorList().get(0);
  return {{first.scalar_type(), first.sizes().vec()}};
}
at::Tensor sum(at::TensorList tensors, const std::optional<at::Tensor>& bias) {
  return execute("openhpu_test::sum", {c10::List<at::Tensor>(tensors.vec()), bias})[0];
}

void device_kernel(const KernelCall& call) { call.output<int32_t>(0)[0] = call.device; }
OPENHPU_CUSTOM_KERNEL("test_device_i32", device_kernel);

// --- a kernel of any guid, for the table of the vendor's ---
// `layout`: of each result its dtype, its number of dimensions, and its sizes.
PartialOutputMetaDataVector as_laid_out(const at::Stack& inputs) {
  const auto layout = inputs[1].toIntVector();
  PartialOutputMetaDataVector results;
  for (auto next = layout.begin(); next != layout.end();) {
    const auto dtype = static_cast<at::ScalarType>(*next++);
    const auto dim = *next++;
    results.push_back({dtype, std::vector<int64_t>(next, next + dim)});
    next += dim;
  }
  return results;
}
std::shared_ptr<void> given_params(const at::Stack& inputs, size_t& size) {
  const auto given = inputs[2].toIntVector();
  size = given.size();
  auto bytes = std::make_shared<std::vector<char>>(given.begin(), given.end());
  return {bytes, bytes->data()};
}
std::vector<at::Tensor> of_guid(
    at::TensorList inputs, std::string guid, at::IntArrayRef layout, at::IntArrayRef params) {
  static auto* library = new torch::Library(torch::Library::FRAGMENT, "openhpu_guid", std::nullopt, __FILE__, __LINE__);
  static std::set<std::string> known;
  if (known.insert(guid).second) {
    library->def((guid + "(Tensor[] inputs, int[] layout, int[] params) -> Tensor[]").c_str());
    registerUserCustomOp("openhpu_guid::" + guid, guid, as_laid_out, given_params);
  }
  return execute(("openhpu_guid::" + guid).c_str(), {c10::List<at::Tensor>(inputs.vec()), layout.vec(), params.vec()});
}

// --- what goes wrong ---
PartialOutputMetaDataVector throwing(const at::Stack&) { throw std::out_of_range("no such dimension"); }
void throwing_kernel(const KernelCall&) { throw std::domain_error("the third element is negative"); }
OPENHPU_CUSTOM_KERNEL("test_throws", throwing_kernel);
void root_kernel(const KernelCall& call) {
  const auto* x = call.input<float>(0);
  auto* y = call.output<float>(0);
  for (int64_t i = 0; i < call.outputs[0].numel(); ++i) {
    if (x[i] < 0) throw std::domain_error("no root of a negative number");
    y[i] = std::sqrt(x[i]);
  }
}
OPENHPU_CUSTOM_KERNEL("test_root_f32", root_kernel);
void odd_kernel(const KernelCall&) { throw 42; }
OPENHPU_CUSTOM_KERNEL("test_throws_a_number", odd_kernel);
void beside_kernel(const KernelCall& call) {
  auto* y = call.output<float>(0);
  for (int64_t i = 0; i <= call.outputs[0].numel(); ++i) y[i] = 1;
}
OPENHPU_CUSTOM_KERNEL("test_writes_beside", beside_kernel);
void input_kernel(const KernelCall& call) {
  const_cast<float*>(call.input<float>(0))[0] = 5;
  std::memset(call.outputs[0].data, 0, call.outputs[0].numel() * sizeof(float));
}
OPENHPU_CUSTOM_KERNEL("test_writes_its_input", input_kernel);
void faulting_kernel(const KernelCall& call) {
  auto* y = call.output<float>(0);
  // 1 TiB before the output nothing is mapped. A walk to the end of the device's memory would use all of the machine's.
  auto* volatile nowhere = y - (int64_t{1} << 38);
  *nowhere = 1;
}
OPENHPU_CUSTOM_KERNEL("test_faults", faulting_kernel);
void twice_kernel(const KernelCall&) {}
OPENHPU_CUSTOM_KERNEL("test_twice", twice_kernel);
OPENHPU_CUSTOM_KERNEL("test_twice", twice_kernel);

at::Tensor by_name(const at::Tensor& self, std::string name) { return execute(name.c_str(), {self}).at(0); }

bool register_all() {
  registerUserCustomOp("openhpu_test::scale", "test_scale_f32", like_first, scale_params);
  registerUserCustomOp("openhpu_test::top", "test_top_f32", top_results, top_params);
  registerUserCustomOp("openhpu_test::add_", "test_add_f32", like_first, nullptr);
  registerUserCustomOp("openhpu_test::add.out", "test_add_f32", like_first, nullptr);
  registerUserCustomOp("openhpu_test::sum", "test_sum_f32", like_first_of_list, nullptr);
  registerUserCustomOp("openhpu_test::in_python", "test_python_f32", like_first, nullptr);
  registerUserCustomOp("openhpu_test::callback_throws", "test_add_f32", throwing, nullptr);
  registerUserCustomOp("openhpu_test::kernel_throws", "test_throws", like_first, nullptr);
  registerUserCustomOp("openhpu_test::root", "test_root_f32", like_first, nullptr);
  registerUserCustomOp("openhpu_test::kernel_throws_a_number", "test_throws_a_number", like_first, nullptr);
  registerUserCustomOp("openhpu_test::no_kernel", "test_nobody_has_it", like_first, nullptr);
  registerUserCustomOp("openhpu_test::no_params", "test_scale_f32", like_first, nullptr);
  registerUserCustomOp("openhpu_test::one_operand", "test_add_f32", like_first, nullptr);
  registerUserCustomOp("openhpu_test::beside", "test_writes_beside", like_first, nullptr);
  registerUserCustomOp("openhpu_test::into_input", "test_writes_its_input", like_first, nullptr);
  registerUserCustomOp("openhpu_test::faults", "test_faults", like_first, nullptr);
  registerUserCustomOp("openhpu_test::kernel_twice", "test_twice", like_first, nullptr);
  registerUserCustomOp("openhpu_test::never_defined", "test_add_f32", like_first, nullptr);
  registerUserCustomOp("openhpu_test::no_callback", "test_add_f32", nullptr, nullptr);
  registerUserCustomOp("openhpu_test::twice", "test_add_f32", like_first, nullptr);
  registerUserCustomOp("openhpu_test::twice", "test_sum_f32", like_first, nullptr);
  return true;
}
const bool registered = register_all();

}  // namespace

TORCH_LIBRARY(openhpu_test, m) {
  m.def("scale(Tensor self, float factor) -> Tensor");
  m.def("top(Tensor self, SymInt k, bool descending) -> (Tensor, Tensor)");
  m.def("add_(Tensor(a!) self, Tensor other) -> Tensor(a!)");
  m.def("add.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)");
  m.def("sum(Tensor[] tensors, Tensor? bias=None) -> Tensor");
  m.def("by_name(Tensor self, str name) -> Tensor");
  m.def("of_guid(Tensor[] inputs, str guid, int[] layout, int[] params) -> Tensor[]", of_guid);
  for (const char* name :
       {"root", "in_python", "callback_throws", "kernel_throws", "kernel_throws_a_number", "no_kernel", "no_params",
        "one_operand", "beside", "into_input", "faults", "kernel_twice", "no_callback", "twice"})
    m.def((std::string(name) + "(Tensor self) -> Tensor").c_str());
}
TORCH_LIBRARY_IMPL(openhpu_test, HPU, m) {
  m.impl("scale", scale);
  m.impl("top", top);
  m.impl("add_", add_);
  m.impl("add.out", add_out);
  m.impl("sum", sum);
  m.impl("by_name", by_name);
}
TORCH_LIBRARY_IMPL(openhpu_test, Meta, m) {
  m.impl("scale", scale_meta);
  m.impl("top", top_meta);
}
