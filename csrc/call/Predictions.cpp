#include "call/OpKernel.h"

#include <ATen/MetaFunctions.h>
#include <ATen/core/Reduction.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/native/utils/ParamUtils.h>

namespace openhpu {
namespace {

Sizes sizes(const c10::IValue& argument) {
  const auto s = argument.toTensor().sizes();
  return {s.begin(), s.end()};
}

using Results = std::vector<Sizes>;

// Whether each of the arguments is missing, or has these sizes.
bool fit(const c10::IValue* args, std::initializer_list<int> positions, const Sizes& expected) {
  for (const int k : positions)
    if (args[k].isTensor() && args[k].toTensor().defined() && sizes(args[k]) != expected) return false;
  return true;
}

Results as_self(const c10::IValue* args) { return {sizes(args[0])}; }

int64_t from_front(int64_t dim, size_t dimensions) { return dim < 0 ? dim + static_cast<int64_t>(dimensions) : dim; }

Results index_select(const c10::IValue* args) {
  auto out = sizes(args[0]);
  const int64_t dim = from_front(args[1].toInt(), out.size());
  const auto index = sizes(args[2]);
  if (index.size() != 1 || dim < 0 || dim >= static_cast<int64_t>(out.size())) return {};
  out[dim] = index[0];
  return {out};
}

// Of `grad`, `indices`, `num_weights`.
Results embedding_dense_backward(const c10::IValue* args) {
  const auto grad = sizes(args[0]), indices = sizes(args[1]);
  if (grad.size() != indices.size() + 1 || !std::equal(indices.begin(), indices.end(), grad.begin())) return {};
  return {Sizes{args[2].toInt(), grad.back()}};
}

// Whether `target` has a class for each row of `self`, `weight` a factor for each class.
bool classify(const c10::IValue& self, const c10::IValue* target_and_weight) {
  const auto scores = sizes(self);
  return scores.size() == 2 && fit(target_and_weight, {0}, {scores[0]}) && fit(target_and_weight, {1}, {scores[1]});
}

Results nll_loss_forward(const c10::IValue* args) {
  if (!classify(args[0], args + 1)) return {};
  const bool each = args[3].toInt() == at::Reduction::None;
  return {each ? Sizes{sizes(args[0])[0]} : Sizes{}, {}};
}

Results nll_loss_backward(const c10::IValue* args) {
  if (!classify(args[1], args + 2)) return {};
  const auto scores = sizes(args[1]);
  const bool each = args[4].toInt() == at::Reduction::None;
  if (!fit(args, {0}, each ? Sizes{scores[0]} : Sizes{})) return {};
  return {scores};
}

// `args` from the stride on.
Results convolved(const Sizes& input, const Sizes& weight, const c10::IValue* args) {
  const auto dims = static_cast<int64_t>(input.size()) - 2;
  const auto list = [&](size_t k) { return at::native::expand_param_if_needed(args[k].toIntVector(), "list", dims); };
  const bool transposed = args[3].toBool();
  const int64_t groups = args[5].toInt();
  if (input[1] != (transposed ? weight[0] : weight[1] * groups)) return {};
  const auto out = transposed ? at::native::conv_input_size(input, weight, list(1), list(4), list(0), list(2), groups)
                              : at::native::conv_output_size(input, weight, list(1), list(0), list(2));
  if (std::any_of(out.begin() + 2, out.end(), [](int64_t size) { return size <= 0; })) return {};
  return {Sizes(out.begin(), out.end())};
}

Results convolution(const c10::IValue* args) {
  auto out = convolved(sizes(args[0]), sizes(args[1]), args + 3);
  if (out.empty() || !fit(args, {2}, {out[0][1]})) return {};
  return out;
}

Results convolution_backward(const c10::IValue* args) {
  const auto out = convolved(sizes(args[1]), sizes(args[2]), args + 4);
  if (out.empty() || out[0] != sizes(args[0])) return {};
  return {sizes(args[1]), sizes(args[2]), {out[0][1]}};
}

Results batch_norm(const c10::IValue* args) {
  const auto input = sizes(args[0]);
  const Sizes channels{input[1]};
  if (!fit(args, {1, 2, 3, 4}, channels)) return {};
  const auto saved = args[5].toBool() ? channels : Sizes{0};
  return {input, saved, saved};
}

Results batch_norm_backward(const c10::IValue* args) {
  const auto input = sizes(args[1]);
  const Sizes channels{input[1]};
  if (!fit(args, {0}, input) || !fit(args, {2, 3, 4, 5, 6}, channels)) return {};
  return {input, channels, channels};
}

// Of the mean and the like; `normalized` is what each is taken over.
Results normalized_over(const Sizes& input, const std::vector<int64_t>& normalized) {
  auto saved = input;
  if (normalized.size() > input.size() || !std::equal(normalized.rbegin(), normalized.rend(), input.rbegin()))
    return {};
  std::fill(saved.end() - static_cast<ptrdiff_t>(normalized.size()), saved.end(), 1);
  return {input, saved, saved};
}

Results layer_norm(const c10::IValue* args) {
  const auto normalized = args[1].toIntVector();
  if (!fit(args, {2, 3}, {normalized.begin(), normalized.end()})) return {};
  return normalized_over(sizes(args[0]), normalized);
}

Results layer_norm_backward(const c10::IValue* args) {
  const auto input = sizes(args[1]);
  const auto normalized = args[2].toIntVector();
  const Sizes weight(normalized.begin(), normalized.end());
  const auto results = normalized_over(input, normalized);
  if (results.empty() || !fit(args, {0}, input)) return {};
  const auto& mean = results[1];
  if (!fit(args, {3, 4}, mean) || !fit(args, {5, 6}, weight)) return {};
  return {input, weight, weight};
}

bool attend(const c10::IValue* args) {  // query, key, value
  const auto query = sizes(args[0]), key = sizes(args[1]), value = sizes(args[2]);
  return query.size() == 4 && key == value && query[0] == key[0] && query[1] == key[1] && query[3] == key[3];
}

Results attention(const c10::IValue* args) {
  if (!attend(args) || args[5].isTensor()) return {};
  const auto query = sizes(args[0]);
  return {query, Sizes(query.begin(), query.end() - 1)};
}

Results attention_backward(const c10::IValue* args) {
  if (!attend(args + 1) || !fit(args, {0, 4}, sizes(args[1])) || args[8].isTensor()) return {};
  return {sizes(args[1]), sizes(args[2]), sizes(args[3])};
}

template <class Function>
Prediction structured(Function function) {
  return {.structured = new c10::KernelFunction(c10::KernelFunction::makeFromUnboxedFunction(function))};
}

// The overload that is no `out=` variant.
constexpr at::Tensor (*div_tensors)(const at::Tensor&, const at::Tensor&) = &at::meta::div;
constexpr at::Tensor (*pow_scalar)(const at::Tensor&, const at::Scalar&) = &at::meta::pow;

}  // namespace

// An operator whose only overload that is no `out=` variant has the same name.
#define STRUCTURED(NAME) {"aten::" #NAME, structured(TORCH_FN(at::meta::NAME))}

Prediction prediction_of(const std::string& name) {
  static const auto* table = new std::unordered_map<std::string, Prediction>{
      STRUCTURED(mm),
      STRUCTURED(addmm),
      STRUCTURED(bmm),
      STRUCTURED(baddbmm),
      STRUCTURED(maximum),
      STRUCTURED(cat),
      STRUCTURED(neg),
      STRUCTURED(cos),
      STRUCTURED(sin),
      STRUCTURED(exp),
      STRUCTURED(log),
      STRUCTURED(sqrt),
      STRUCTURED(rsqrt),
      STRUCTURED(sigmoid),
      STRUCTURED(sigmoid_backward),
      STRUCTURED(tanh),
      STRUCTURED(tanh_backward),
      STRUCTURED(gelu),
      STRUCTURED(gelu_backward),
      STRUCTURED(silu),
      STRUCTURED(threshold_backward),
      STRUCTURED(_softmax),
      STRUCTURED(_softmax_backward_data),
      STRUCTURED(_log_softmax),
      STRUCTURED(_log_softmax_backward_data),
      {"aten::add.Tensor", structured(TORCH_FN(at::meta::add))},
      {"aten::add_.Tensor", structured(TORCH_FN(at::meta::add_))},
      {"aten::sub.Tensor", structured(TORCH_FN(at::meta::sub))},
      {"aten::mul.Tensor", structured(TORCH_FN(at::meta::mul))},
      {"aten::mul_.Tensor", structured(TORCH_FN(at::meta::mul_))},
      {"aten::pow.Tensor_Scalar", structured(TORCH_FN(pow_scalar))},
      {"aten::div.Tensor", structured(TORCH_FN(div_tensors))},
      {"aten::sum.dim_IntList", structured(TORCH_FN(at::meta::sum))},
      {"aten::mean.dim", structured(TORCH_FN(at::meta::mean))},
      {"aten::relu", {.sizes = &as_self}},
      {"aten::zero_", {.sizes = &as_self}},
      {"aten::copy_", {.sizes = &as_self}},
      {"aten::index_select", {.sizes = &index_select}},
      {"aten::embedding_dense_backward", {.sizes = &embedding_dense_backward}},
      {"aten::nll_loss_forward", {.sizes = &nll_loss_forward}},
      {"aten::nll_loss_backward", {.sizes = &nll_loss_backward}},
      {"aten::convolution", {.sizes = &convolution}},
      {"aten::convolution_backward", {.sizes = &convolution_backward}},
      {"aten::native_batch_norm", {.sizes = &batch_norm}},
      {"aten::_native_batch_norm_legit", {.sizes = &batch_norm}},
      {"aten::native_batch_norm_backward", {.sizes = &batch_norm_backward}},
      {"aten::native_layer_norm", {.sizes = &layer_norm}},
      {"aten::native_layer_norm_backward", {.sizes = &layer_norm_backward}},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", {.sizes = &attention}},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", {.sizes = &attention_backward}},
  };
  const auto it = table->find(name);
  return it == table->end() ? Prediction() : it->second;
}

}  // namespace openhpu
