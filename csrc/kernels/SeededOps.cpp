#include "kernels/SeededOps.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <string_view>
#include <unordered_map>

#include "kernels/RandomKernels.h"

namespace openhpu {

SeededOp::SeededOp(const char* name, const char* overload)
    : kernel_(new OpKernel(
          c10::Dispatcher::singleton().findSchemaOrThrow((std::string("openhpu::") + name).c_str(), overload))) {}

namespace {

using at::Scalar;
using at::Tensor;

uint32_t word(const Scalar& seed) { return static_cast<uint32_t>(seed.toLong()); }

// A kernel that fills its first operand, with the signature of its operator.
template <auto kKernel>
struct Fill;
template <class... Args, void (*kKernel)(const Tensor&, uint32_t, Args...)>
struct Fill<kKernel> {
  static Tensor& call(Tensor& self, const Scalar& seed, Args... args) {
    kKernel(self, word(seed), args...);
    return self;
  }
};

// A distribution whose parameter is the first operand.
template <void (*kKernel)(const Tensor&, uint32_t, const Tensor&)>
Tensor sample(const Tensor& self, const Scalar& seed) {
  auto out = at::empty_like(self, at::MemoryFormat::Contiguous);
  kKernel(out, word(seed), self);
  return out;
}

Tensor& seeded_random_from(Tensor& self, const Scalar& seed, const Scalar& from, const Scalar& range) {
  random::integers(self, word(seed), from.toLong(), static_cast<uint64_t>(range.toLong()));
  return self;
}
Tensor& seeded_random_all(Tensor& self, const Scalar& seed, const Scalar& range) {
  return seeded_random_from(self, seed, 0, range);
}

Tensor seeded_binomial(const Tensor& count, const Scalar& seed, const Tensor& prob) {
  auto out = at::empty(at::infer_size(count.sizes(), prob.sizes()), count.options());
  random::binomial(out, word(seed), count, prob);
  return out;
}

std::tuple<Tensor, Tensor> seeded_native_dropout(const Tensor& input, const Scalar& seed, double p) {
  auto out = at::empty_like(input);
  auto mask = at::empty_like(input, input.options().dtype(at::kBool));
  random::dropout(out, mask, input, word(seed), p);
  return {out, mask};
}

Tensor& rrelu_with_noise(
    const Tensor& self, const Scalar& seed, Tensor& noise, Tensor& out, double lower, double upper) {
  random::rrelu(out, noise, self, word(seed), lower, upper);
  return out;
}

using Parameters = at::TensorList;

// A distribution with numbers as parameters, given as 0-dim tensors.
template <auto kKernel>
struct Draw;
template <class... Args, void (*kKernel)(const Tensor&, uint32_t, Args...)>
struct Draw<kKernel> {
  static void call(const Tensor& out, uint32_t seed, Parameters p) {
    // At least one: recipes cannot pass an empty list.
    TORCH_CHECK(p.size() == std::max<size_t>(sizeof...(Args), 1), "wrong number of parameters: ", p.size());
    draw(out, seed, p, std::index_sequence_for<Args...>());
  }
  template <size_t... I>
  static void draw(const Tensor& out, uint32_t seed, [[maybe_unused]] Parameters p, std::index_sequence<I...>) {
    kKernel(out, seed, value<Args>(p[I])...);
  }
  template <class T>
  static decltype(auto) value(const Tensor& t) {
    if constexpr (std::is_same_v<T, const Tensor&>)
      return (t);
    else if constexpr (std::is_same_v<T, uint64_t>)
      return static_cast<uint64_t>(t.item<int64_t>());
    else
      return t.item<T>();
  }
};

using Drawing = void (*)(const Tensor&, uint32_t, Parameters);
Drawing drawing(std::string_view name) {
  static const std::unordered_map<std::string_view, Drawing> all{
      {"uniform", &Draw<&random::uniform>::call},
      {"normal", &Draw<&random::normal>::call},
      {"bernoulli", &Draw<&random::bernoulli>::call},
      {"bernoulli_tensor", &Draw<&random::bernoulli_tensor>::call},
      {"integers", &Draw<&random::integers>::call},
      {"exponential", &Draw<&random::exponential>::call},
      {"cauchy", &Draw<&random::cauchy>::call},
      {"log_normal", &Draw<&random::log_normal>::call},
      {"geometric", &Draw<&random::geometric>::call},
      {"permutation", &Draw<&random::permutation>::call},
      {"poisson", &Draw<&random::poisson>::call},
      {"binomial", &Draw<&random::binomial>::call},
      {"gamma", &Draw<&random::gamma>::call},
  };
  const auto found = all.find(name);
  TORCH_CHECK(found != all.end(), "no distribution '", name, "'");
  return found->second;
}

Tensor draw(
    c10::string_view distribution, at::IntArrayRef size, const Tensor& seed, Parameters parameters,
    at::ScalarType dtype) {
  auto out = at::empty(size, at::TensorOptions().dtype(dtype));
  drawing(distribution)(out, static_cast<uint32_t>(seed.item<int64_t>()), parameters);
  return out;
}

}  // namespace

// Whatever changes from call to call is a Scalar or a float: the generic kernel's signature counts those by type, so
// that a new seed is not a new signature. Ranges are the bits of an unsigned 64-bit number, 0 for all 2^64 integers.
TORCH_LIBRARY_FRAGMENT(openhpu, m) {
  m.def("uniform_(Tensor(a!) self, Scalar seed, float from, float to) -> Tensor(a!)");
  m.def("normal_(Tensor(a!) self, Scalar seed, float mean, float std) -> Tensor(a!)");
  m.def("bernoulli_.float(Tensor(a!) self, Scalar seed, float p) -> Tensor(a!)");
  m.def("bernoulli_.Tensor(Tensor(a!) self, Scalar seed, Tensor p) -> Tensor(a!)");
  m.def("random_.from(Tensor(a!) self, Scalar seed, Scalar start, Scalar range) -> Tensor(a!)");
  m.def("random_(Tensor(a!) self, Scalar seed, Scalar range) -> Tensor(a!)");
  m.def("exponential_(Tensor(a!) self, Scalar seed, float lambd) -> Tensor(a!)");
  m.def("cauchy_(Tensor(a!) self, Scalar seed, float median, float sigma) -> Tensor(a!)");
  m.def("log_normal_(Tensor(a!) self, Scalar seed, float mean, float std) -> Tensor(a!)");
  m.def("geometric_(Tensor(a!) self, Scalar seed, float p) -> Tensor(a!)");
  m.def("randperm.generator_out(Tensor(a!) out, Scalar seed) -> Tensor(a!)");
  m.def("native_dropout(Tensor input, Scalar seed, float p) -> (Tensor, Tensor)");
  m.def(
      "rrelu_with_noise(Tensor self, Scalar seed, Tensor(a!) noise, Tensor(b!) out, float lower, float upper) -> "
      "Tensor(b!)");
  m.def("poisson(Tensor self, Scalar seed) -> Tensor");
  m.def("binomial(Tensor count, Scalar seed, Tensor prob) -> Tensor");
  m.def("_standard_gamma(Tensor self, Scalar seed) -> Tensor");
  // What recipes call where they do not generate the numbers themselves.
  m.def("draw(str distribution, SymInt[] size, Tensor seed, Tensor[] parameters, ScalarType dtype) -> Tensor");
}

TORCH_LIBRARY_IMPL(openhpu, CPU, m) {
  m.impl("uniform_", &Fill<&random::uniform>::call);
  m.impl("normal_", &Fill<&random::normal>::call);
  m.impl("bernoulli_.float", &Fill<&random::bernoulli>::call);
  m.impl("bernoulli_.Tensor", &Fill<&random::bernoulli_tensor>::call);
  m.impl("random_.from", &seeded_random_from);
  m.impl("random_", &seeded_random_all);
  m.impl("exponential_", &Fill<&random::exponential>::call);
  m.impl("cauchy_", &Fill<&random::cauchy>::call);
  m.impl("log_normal_", &Fill<&random::log_normal>::call);
  m.impl("geometric_", &Fill<&random::geometric>::call);
  m.impl("randperm.generator_out", &Fill<&random::permutation>::call);
  m.impl("native_dropout", &seeded_native_dropout);
  m.impl("rrelu_with_noise", &rrelu_with_noise);
  m.impl("poisson", &sample<&random::poisson>);
  m.impl("binomial", &seeded_binomial);
  m.impl("_standard_gamma", &sample<&random::gamma>);
  m.impl("draw", &draw);
}

}  // namespace openhpu
