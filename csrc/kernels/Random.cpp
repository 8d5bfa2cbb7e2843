// Random operators. Each checks its arguments, draws one 32-bit seed from the device's generator when it is issued, and
// calls the operator that computes from that seed (SeededOps). So the same torch.manual_seed gives the same numbers at
// any thread count and in every mode.
#include <ATen/Dispatch_v2.h>
#include <ATen/ExpandUtils.h>
#include <ATen/ops/_assert_async.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/native_dropout.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/native/DistributionTemplates.h>
#include <ATen/native/Resize.h>

#include "call/OpKernel.h"
#include "record/Capture.h"
#include "torch/HPUGenerator.h"

namespace openhpu {
namespace {

using at::Tensor;
using Gen = std::optional<at::Generator>;

// An operator of the library `openhpu` (SeededOps).
class SeededOp {
 public:
  explicit SeededOp(const std::string& name, const char* overload = "")
      : kernel_(new OpKernel(c10::Dispatcher::singleton().findSchemaOrThrow(("openhpu::" + name).c_str(), overload))) {}

  // Returns the results.
  template <class... Args>
  c10::Stack operator()(const Tensor& first, uint32_t seed, Args&&... args) const {
    c10::Stack stack;
    stack.reserve(2 + sizeof...(args));
    stack.emplace_back(first);
    stack.emplace_back(static_cast<int64_t>(seed));
    (stack.emplace_back(std::forward<Args>(args)), ...);
    kernel_->call(stack);
    return stack;
  }

 private:
  OpKernel* kernel_;  // never deleted: commands in the queue refer to it
};

// `use(seed)` with a seed of its own.
template <class Use>
auto with_seed(const Tensor& self, const Gen& generator, Use&& use) {
  // An hpu generator brings tensors of other devices here.
  TORCH_CHECK(
      self.device().type() == c10::kHPU, "Expected a '", self.device().type(),
      "' device type for generator but found 'hpu'");
  const auto index = self.device().index();
  auto* capture = current_capture(index);
  if (C10_LIKELY(!capture)) return use(draw_seed(generator, index));
  auto drawn_from = generator.has_value() && generator->defined() ? *generator : default_generator(index);
  const auto before = drawn_from.unsafeGetGeneratorImpl()->get_state();
  capture->note_draw(generator, index);
  const uint32_t seed = draw_seed(generator, index);
  try {
    return use(seed);
  } catch (...) {
    // What a graph can't hold is issued again, outside of it: then it draws this seed.
    drawn_from.unsafeGetGeneratorImpl()->set_state(*before);
    throw;
  }
}

// A drawn seed counts even where there is nothing to fill.
template <class... Args>
Tensor& fill(const SeededOp& op, Tensor& self, const Gen& generator, Args&&... args) {
  with_seed(self, generator, [&](uint32_t seed) {
    if (self.numel() > 0) op(self, seed, std::forward<Args>(args)...);
  });
  return self;
}

// Samples of a distribution whose parameter is `self`.
Tensor sample(const SeededOp& op, const Tensor& self, const Gen& generator) {
  return with_seed(self, generator, [&](uint32_t seed) {
    return self.numel() > 0 ? op(self, seed)[0].toTensor() : at::empty_like(self, at::MemoryFormat::Contiguous);
  });
}

void check_device(const Tensor& t, const Tensor& like) {
  TORCH_CHECK(
      t.device() == like.device() || (t.is_cpu() && t.dim() == 0),
      "Expected all tensors to be on the same device, but found at least two devices, ", like.device(), " and ",
      t.device(), "!");
}

void check_floating(const char* name, const Tensor& self) {
  TORCH_CHECK(
      at::isFloatingType(self.scalar_type()), name, " on hpu expects a floating-point tensor, got ",
      self.scalar_type());
}

// Values that an operator needs: the host looks at them before the operator is issued. A captured graph, which the host
// does not see again, holds the check: then the error is the device's, and comes with the next wait.
void check_values(const Tensor& valid, const char* message) {
  if (C10_UNLIKELY(current_capture(valid.device().index()) != nullptr))
    at::_assert_async(valid, message);
  else
    TORCH_CHECK(valid.item<bool>(), message);
}

void check_std(double std) { TORCH_CHECK(std >= 0.0, "normal expects std >= 0.0, but found std ", std); }
void check_std(const Tensor& std) {
  TORCH_CHECK(!std.is_complex(), "normal expects standard deviation to be non-complex");
  if (std.numel() > 0) check_values(std.min().ge(0), "normal expects all elements of std >= 0.0");
}

Tensor& uniform_(Tensor& self, double from, double to, Gen g) {
  if (self.is_complex()) {
    auto parts = at::view_as_real(self);
    uniform_(parts, from, to, g);
    return self;
  }
  // Of integers, which a Gaudi fills too, it draws real numbers and drops what they have behind the point.
  TORCH_CHECK_NOT_IMPLEMENTED(self.scalar_type() != at::kBool, "\"uniform_\" not implemented for 'Bool'");
  TORCH_CHECK(from <= to, "uniform_ expects to return a [from, to) range, but found from=", from, " > to=", to);
  static const SeededOp op("uniform_");
  return fill(op, self, g, from, to);
}

Tensor& normal_(Tensor& self, double mean, double std, Gen g) {
  check_std(std);
  if (self.is_complex()) {
    auto parts = at::view_as_real(self);
    normal_(parts, 0.0, std / std::sqrt(2.0), g);
    if (mean != 0.0) self.add_(mean);
    return self;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      at::isFloatingType(self.scalar_type()), "\"normal_kernel_cpu\" not implemented for '", self.scalar_type(), "'");
  static const SeededOp op("normal_");
  return fill(op, self, g, mean, std);
}

Tensor& bernoulli_float(Tensor& self, double p, Gen g) {
  TORCH_CHECK(0 <= p && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
  static const SeededOp op("bernoulli_", "float");
  return fill(op, self, g, p);
}

Tensor& bernoulli_tensor(Tensor& self, const Tensor& p, Gen g) {
  TORCH_CHECK(
      at::isFloatingType(p.scalar_type()), "expected probabilities tensor to have floating type, got ",
      p.scalar_type());
  TORCH_CHECK(
      at::is_expandable_to(p.sizes(), self.sizes()), "bernoulli_: probabilities of shape ", p.sizes(),
      " can't be expanded to ", self.sizes());
  check_device(p, self);
  static const SeededOp op("bernoulli_", "Tensor");
  return fill(op, self, g, p);
}

Tensor& bernoulli_out(const Tensor& self, Gen g, Tensor& out) {
  at::native::resize_output(out, self.sizes());
  return bernoulli_tensor(out, self, g);
}

// The largest integer range of a dtype that holds every integer exactly; 0: all 2^64.
uint64_t exact_range(at::ScalarType t) {
  const auto range = []<class T>(T) -> uint64_t {
    using Limits = std::numeric_limits<T>;
    if constexpr (Limits::digits == 64)
      return 0;
    else
      return (uint64_t{1} << Limits::digits) + !Limits::is_integer;
  };
  return AT_DISPATCH_V2(
      t, "random_", AT_WRAP([&] { return range(scalar_t{}); }), AT_EXPAND(AT_ALL_TYPES),
      AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), at::kBool, at::kHalf, at::kBFloat16);
}

Tensor& random_from(Tensor& self, int64_t from, std::optional<int64_t> to, Gen g) {
  uint64_t range = 0;
  if (to.has_value()) {
    TORCH_CHECK(from < *to, "random_ expects 'from' to be less than 'to', but got from=", from, " >= to=", *to);
    range = static_cast<uint64_t>(*to) - static_cast<uint64_t>(from);
    if (at::isIntegralType(self.scalar_type(), true))
      at::native::templates::check_from_to_in_range(from, *to - 1, self.dtype());
  } else if (from != std::numeric_limits<int64_t>::lowest()) {
    const uint64_t limit = exact_range(self.scalar_type());
    range = limit ? limit - static_cast<uint64_t>(from) : 0 - static_cast<uint64_t>(from);
  }
  static const SeededOp op("random_", "from");
  return fill(op, self, g, from, static_cast<int64_t>(range));
}

Tensor& random_to(Tensor& self, int64_t to, Gen g) { return random_from(self, 0, to, std::move(g)); }

Tensor& random_all(Tensor& self, Gen g) {
  const uint64_t range = exact_range(self.scalar_type());
  static const SeededOp op("random_");
  return fill(op, self, g, static_cast<int64_t>(range));
}

Tensor& exponential_(Tensor& self, double lambda, Gen g) {
  TORCH_CHECK(lambda > 0.0, "exponential_ expects lambda > 0.0, but found lambda=", lambda);
  check_floating("exponential_", self);
  static const SeededOp op("exponential_");
  return fill(op, self, g, lambda);
}

Tensor& cauchy_(Tensor& self, double median, double sigma, Gen g) {
  TORCH_CHECK(sigma > 0.0, "cauchy_ expects sigma > 0.0, but found sigma=", sigma);
  TORCH_CHECK(
      at::isFloatingType(self.scalar_type()),
      "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you specified ",
      self.dtype());
  static const SeededOp op("cauchy_");
  return fill(op, self, g, median, sigma);
}

Tensor& log_normal_(Tensor& self, double mean, double std, Gen g) {
  TORCH_CHECK(std > 0.0, "log_normal_ expects std > 0.0, but found std=", std);
  check_floating("log_normal_", self);
  static const SeededOp op("log_normal_");
  return fill(op, self, g, mean, std);
}

Tensor& geometric_(Tensor& self, double p, Gen g) {
  TORCH_CHECK(0 < p && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
  static const SeededOp op("geometric_");
  return fill(op, self, g, p);
}

// Of mean and standard deviation one is a tensor, or both are.
c10::IntArrayRef sizes_of(const Tensor& t) { return t.sizes(); }
c10::IntArrayRef sizes_of(double) { return {}; }

template <class Mean, class Std>
Tensor& normal_out(Mean mean, Std std, Gen g, Tensor& out) {
  check_std(std);
  at::native::resize_output(out, at::infer_size_dimvector(sizes_of(mean), sizes_of(std)));
  if constexpr (std::is_same_v<Std, double>)
    return normal_(out, 0, std, std::move(g)).add_(mean);
  else
    return normal_(out, 0, 1, std::move(g)).mul_(std).add_(mean);
}
template <class Mean, class Std>
Tensor normal(Mean mean, Std std, Gen g) {
  const Tensor* like = nullptr;
  if constexpr (std::is_same_v<Mean, double>)
    like = &std;
  else
    like = &mean;
  auto out = at::empty(at::infer_size_dimvector(sizes_of(mean), sizes_of(std)), like->options());
  return normal_out<Mean, Std>(mean, std, std::move(g), out);
}

Tensor& randperm_out(int64_t n, Gen g, Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  at::native::resize_output(out, {n});
  static const SeededOp op("randperm", "generator_out");
  return fill(op, out, g);
}

// `p`: the probability to drop an element.
std::tuple<Tensor, Tensor> drop(const Tensor& input, double p, const Gen& g) {
  static const SeededOp op("native_dropout");
  auto results = with_seed(input, g, [&](uint32_t seed) { return op(input, seed, p); });
  return {std::move(results[0]).toTensor(), std::move(results[1]).toTensor()};
}

std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p, std::optional<bool> train) {
  if (input.numel() == 0 || (train.has_value() && !*train) || p == 0)
    return {input.clone(), at::ones_like(input, input.options().dtype(at::kBool))};
  if (p == 1) return {at::zeros_like(input), at::zeros_like(input, input.options().dtype(at::kBool))};
  return drop(input, p, std::nullopt);
}

// What CUDA and Gaudi have in place of native_dropout: `p` is the probability to keep an element, the mask is of bytes.
std::tuple<Tensor, Tensor> fused_dropout(const Tensor& input, double p, Gen g) {
  TORCH_CHECK(p > 0 && p <= 1, "_fused_dropout expects p, the probability to keep an element, in (0, 1], but got ", p);
  auto [out, mask] = drop(input, 1 - p, g);
  return {std::move(out), mask.to(at::kByte)};
}
Tensor masked_scale(const Tensor& self, const Tensor& mask, double scale) {
  TORCH_CHECK(
      mask.scalar_type() == at::kByte || mask.scalar_type() == at::kBool || mask.scalar_type() == self.scalar_type(),
      "_masked_scale expects a mask of dtype torch.uint8 or torch.bool, or of the input's dtype ", self.dtype(),
      ", got ", mask.dtype());
  const bool computes = at::isFloatingType(self.scalar_type());
  return (computes ? self : self.to(at::kFloat)).mul(mask).mul(scale).to(self.scalar_type());
}

// The two below run above autograd, hence also on the fake tensors of torch.compile, whose sizes may be symbols.
bool is_empty(const Tensor& t) { return TORCH_GUARD_OR_FALSE(t.sym_numel().sym_eq(0)); }

// PyTorch's dropout is one operator where a backend has native_dropout, but its list of such backends is fixed.
Tensor dropout(const Tensor& input, double p, bool train) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  if (p == 0 || !train || is_empty(input)) return input;
  if (p == 1) return input.mul(at::zeros({}, input.options()));
  return std::get<0>(at::native_dropout(input, p, train));
}
Tensor& dropout_(Tensor& input, double p, bool train) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  if (p == 0 || !train || is_empty(input)) return input;
  if (p == 1) return input.mul_(at::zeros({}, input.options()));
  auto noise = at::empty_like(input).bernoulli_(1 - p).div_(1 - p);
  return input.mul_(noise);
}

void rrelu_into(
    const Tensor& out, const Tensor& noise, const Tensor& self, const at::Scalar& lower, const at::Scalar& upper,
    const Gen& g) {
  TORCH_CHECK(
      self.sym_sizes() == noise.sym_sizes(),
      "noise tensor shape must match self tensor shape. Got self.shape = ", self.sizes(),
      " noise.shape = ", noise.sizes());
  const double lo = lower.toDouble(), hi = upper.toDouble();
  TORCH_CHECK(lo <= hi, "Lower bound should be less than or equal to the upper bound");
  static const SeededOp op("rrelu_with_noise");
  with_seed(self, g, [&](uint32_t seed) { op(self, seed, noise, out, lo, hi); });
}
Tensor& rrelu_out(
    const Tensor& self, Tensor& noise, const at::Scalar& lower, const at::Scalar& upper, bool training, Gen g,
    Tensor& out) {
  if (!training) return at::leaky_relu_out(out, self, (lower.toDouble() + upper.toDouble()) / 2);
  at::native::resize_output(out, self.sizes());
  rrelu_into(out, noise, self, lower, upper, g);
  return out;
}
Tensor rrelu(
    const Tensor& self, Tensor& noise, const at::Scalar& lower, const at::Scalar& upper, bool training, Gen g) {
  auto out = at::empty_like(self);
  return rrelu_out(self, noise, lower, upper, training, std::move(g), out);
}
Tensor& rrelu_(Tensor& self, Tensor& noise, const at::Scalar& lower, const at::Scalar& upper, bool training, Gen g) {
  if (!training) return at::leaky_relu_(self, (lower.toDouble() + upper.toDouble()) / 2);
  rrelu_into(self, noise, self, lower, upper, g);
  return self;
}

Tensor poisson(const Tensor& self, Gen g) {
  static const SeededOp op("poisson");
  return sample(op, self, g);
}
Tensor binomial(const Tensor& count, const Tensor& prob, Gen g) {
  const auto sizes = at::infer_size(count.sizes(), prob.sizes());
  check_device(prob, count);
  static const SeededOp op("binomial");
  return with_seed(count, g, [&](uint32_t seed) {
    return c10::multiply_integers(sizes) > 0 ? op(count, seed, prob)[0].toTensor() : at::empty(sizes, count.options());
  });
}
Tensor standard_gamma(const Tensor& self, Gen g) {
  static const SeededOp op("_standard_gamma");
  return sample(op, self, g);
}
Tensor sample_dirichlet(const Tensor& self, Gen g) {
  auto gammas = standard_gamma(self.to(at::kDouble), std::move(g));
  const auto sum = gammas.sum(-1, true);
  const double tiny = self.scalar_type() == at::kDouble ? std::numeric_limits<double>::min()
                                                        : static_cast<double>(std::numeric_limits<float>::min());
  return at::div(gammas, sum).clamp_min(tiny).to(self.scalar_type());
}

Tensor& multinomial_out(const Tensor& self, int64_t n, bool replacement, Gen g, Tensor& out) {
  TORCH_CHECK(out.scalar_type() == at::kLong, "multinomial expects Long tensor out, got: ", out.scalar_type());
  TORCH_CHECK(n > 0, "cannot sample n_sample <= 0 samples");
  TORCH_CHECK(self.dim() > 0 && self.dim() <= 2, "prob_dist must be 1 or 2 dim");
  TORCH_CHECK(
      at::isFloatingType(self.scalar_type()),
      "multinomial only supports floating-point dtypes for input, got: ", self.scalar_type());
  const int64_t categories = self.size(-1);
  TORCH_CHECK(
      replacement || n <= categories, "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  TORCH_CHECK(categories <= int64_t{1} << 24, "number of categories cannot exceed 2^24");
  if (self.dim() == 1) {
    at::native::resize_output(out, {n});
  } else {
    at::native::resize_output(out, {self.size(0), n});
  }
  if (out.numel() == 0) return out;
  const auto finite = at::isfinite(self).all().logical_and_(self.ge(0).all()), positive = self.sum(-1).gt(0).all();
  if (current_capture(self.device().index()) || !finite.logical_and(positive).item<bool>()) {
    check_values(finite, "probability tensor contains either `inf`, `nan` or element < 0");
    check_values(positive, "invalid multinomial distribution (sum of probabilities <= 0)");
  }
  if (!replacement || n == 1) {
    // The largest of p / Exponential(1) is a draw from p; the n largest are n draws without replacement.
    auto q = at::empty_like(self, at::MemoryFormat::Contiguous);
    exponential_(q, 1.0, std::move(g));
    q = at::div(self, q);
    return out.copy_(n == 1 ? q.argmax(-1, true) : std::get<1>(q.topk(n, -1, true, true)));
  }
  auto cdf = self.to(at::kDouble).cumsum(-1);
  cdf = at::div(cdf, cdf.narrow(-1, categories - 1, 1));
  auto u = at::empty(out.sizes(), out.options().dtype(at::kDouble));
  uniform_(u, 0, 1, std::move(g));
  return out.copy_(at::searchsorted(cdf, u, /*out_int32=*/false, /*right=*/true));
}
Tensor multinomial(const Tensor& self, int64_t n, bool replacement, Gen g) {
  auto out = at::empty({0}, self.options().dtype(at::kLong));
  return multinomial_out(self, n, replacement, std::move(g), out);
}

// PyTorch has none for these, and to learn their sizes torch.compile would run them: a draw that eager mode doesn't
// make.
Tensor binomial_meta(const Tensor& count, const Tensor& prob, Gen) {
  return at::empty_symint(at::infer_size_symint(count.sym_sizes(), prob.sym_sizes()), count.options());
}
Tensor sample_dirichlet_meta(const Tensor& self, Gen) { return at::empty_like(self, at::MemoryFormat::Contiguous); }

}  // namespace

TORCH_LIBRARY_IMPL(aten, HPU, m) {
  m.impl("uniform_", TORCH_FN(uniform_));
  m.impl("normal_", TORCH_FN(normal_));
  m.impl("bernoulli_.float", TORCH_FN(bernoulli_float));
  m.impl("bernoulli_.Tensor", TORCH_FN(bernoulli_tensor));
  m.impl("bernoulli.out", TORCH_FN(bernoulli_out));
  m.impl("random_.from", TORCH_FN(random_from));
  m.impl("random_.to", TORCH_FN(random_to));
  m.impl("random_", TORCH_FN(random_all));
  m.impl("exponential_", TORCH_FN(exponential_));
  m.impl("cauchy_", TORCH_FN(cauchy_));
  m.impl("log_normal_", TORCH_FN(log_normal_));
  m.impl("geometric_", TORCH_FN(geometric_));
  m.impl("normal.Tensor_float_out", TORCH_FN((normal_out<const Tensor&, double>)));
  m.impl("normal.float_Tensor_out", TORCH_FN((normal_out<double, const Tensor&>)));
  m.impl("normal.Tensor_Tensor_out", TORCH_FN((normal_out<const Tensor&, const Tensor&>)));
  m.impl("normal.Tensor_float", TORCH_FN((normal<const Tensor&, double>)));
  m.impl("normal.float_Tensor", TORCH_FN((normal<double, const Tensor&>)));
  m.impl("normal.Tensor_Tensor", TORCH_FN((normal<const Tensor&, const Tensor&>)));
  m.impl("randperm.generator_out", TORCH_FN(randperm_out));
  m.impl("native_dropout", TORCH_FN(native_dropout));
  m.impl("_fused_dropout", TORCH_FN(fused_dropout));
  m.impl("_masked_scale", TORCH_FN(masked_scale));
  m.impl("rrelu_with_noise", TORCH_FN(rrelu));
  m.impl("rrelu_with_noise_", TORCH_FN(rrelu_));
  m.impl("rrelu_with_noise.out", TORCH_FN(rrelu_out));
  m.impl("poisson", TORCH_FN(poisson));
  m.impl("binomial", TORCH_FN(binomial));
  m.impl("_standard_gamma", TORCH_FN(standard_gamma));
  m.impl("_sample_dirichlet", TORCH_FN(sample_dirichlet));
  m.impl("multinomial", TORCH_FN(multinomial));
  m.impl("multinomial.out", TORCH_FN(multinomial_out));
  m.impl("dropout", TORCH_FN(dropout));
  m.impl("dropout_", TORCH_FN(dropout_));
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("binomial", TORCH_FN(binomial_meta));
  m.impl("_sample_dirichlet", TORCH_FN(sample_dirichlet_meta));
}

TORCH_LIBRARY_IMPL(aten, AutogradHPU, m) {
  m.impl("dropout", TORCH_FN(dropout));
  m.impl("dropout_", TORCH_FN(dropout_));
}

}  // namespace openhpu
