// The library `openhpu`: random operators without a generator. Each is the aten operator of the same name and overload
// with the seed as its second operand, and a function of its operands alone, so that it goes through the generic kernel
// like any other operator: queued, recorded, replayed. Users see the aten name: in errors, in traces, and where CPU
// fallbacks are counted (OpTraits::seeded).
#include <ATen/ExpandUtils.h>
#include <ATen/Parallel.h>
#include <ATen/core/PhiloxRNGEngine.h>
#include <ATen/native/Distributions.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>

#include <cmath>
#include <numbers>

#include "kernels/philox.h"

namespace openhpu {
namespace {

// Random kernels on CPU aliases. Element i (in logical order) is a function of the seed and i.
namespace random {

using philox::kBlock;
constexpr int64_t kGrain = 16 * kBlock;

// Calls write(first element, their number) for blocks of at most kBlock of n elements, on several threads.
template <class Write>
void for_blocks(int64_t n, const Write& write) {
  at::parallel_for(0, n, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kBlock) write(i, std::min<int64_t>(kBlock, end - i));
  });
}

// Runs `write` on a dense buffer of type T: the tensor itself where it is one, else a temporary copied into it.
template <class T, class Write>
void with_buffer(const at::Tensor& out, const Write& write) {
  const auto type = c10::CppTypeToScalarType<T>::value;
  if (out.scalar_type() == type && out.is_contiguous()) {
    write(out.mutable_data_ptr<T>());
    return;
  }
  auto buffer = at::empty(out.sizes(), out.options().dtype(type));
  write(buffer.template mutable_data_ptr<T>());
  out.copy_(buffer);
}

// Writes make(first word, second word, i) of type T for all elements i.
template <class T, class Make>
void generate(const at::Tensor& out, uint32_t seed, const Make& make) {
  with_buffer<T>(out, [&](T* data) {
    for_blocks(out.numel(), [&](int64_t i, int64_t m) {
      uint32_t a[kBlock], b[kBlock];
      philox::block(seed, static_cast<uint64_t>(i), a, b);
      for (int64_t j = 0; j < m; ++j) data[i + j] = make(a[j], b[j], i + j);
    });
  });
}

bool wide(const at::Tensor& t) {
  return t.scalar_type() == at::kDouble || at::isIntegralType(t.scalar_type(), /*includeBool=*/true);
}

// A function of numbers in [0, 1).
template <class Value>
void of_uniform(const at::Tensor& out, uint32_t seed, const Value& value) {
  if (wide(out))
    generate<double>(out, seed, [&](uint32_t a, uint32_t b, int64_t) { return value(philox::to_double(a, b)); });
  else
    generate<float>(
        out, seed, [&](uint32_t a, uint32_t, int64_t) { return static_cast<float>(value(philox::to_float(a))); });
}

// Bits of the fraction that a dtype can hold, so that a value below 1 does not round up to 1.
int fraction_bits(at::ScalarType t) {
  switch (t) {
    case at::kFloat8_e5m2:
      return 3;
    case at::kFloat8_e4m3fn:
      return 4;
    case at::kBFloat16:
      return 8;
    case at::kHalf:
      return 11;
    default:
      return 24;
  }
}

double normal_wide(uint32_t a, uint32_t b) {
  const double u1 = (static_cast<double>(a) + 1.0) * 0x1.0p-32;
  const double u2 = static_cast<double>(b) * 0x1.0p-32;
  return std::sqrt(-2.0 * std::log(u1)) * std::cos(2.0 * std::numbers::pi * u2);
}

// A function of standard normal numbers: `f32` and `f64` map one to a value.
template <class F32, class F64>
void of_normal(const at::Tensor& out, uint32_t seed, const F32& f32, const F64& f64) {
  const auto f64_of_words = [&](uint32_t a, uint32_t b, int64_t) { return f64(normal_wide(a, b)); };
  if (wide(out)) return generate<double>(out, seed, f64_of_words);
  with_buffer<float>(out, [&](float* data) {
    for_blocks(out.numel(), [&](int64_t i, int64_t m) {
      philox::normals(seed, static_cast<uint64_t>(i), static_cast<size_t>(m), data + i);
      for (int64_t j = i; j < i + m; ++j) data[j] = f32(data[j]);
    });
  });
}

double exponential_of(double u) { return -std::log1p(-(u > 0 ? u : 0x1.0p-33)); }

// Distributions that need an unknown number of draws: element i has its own subsequence.
class Engine {
 public:
  Engine(uint32_t seed, int64_t element) : engine_(seed, static_cast<uint64_t>(element), 0) {}
  double uniform() {
    const uint32_t a = engine_(), b = engine_();
    return philox::to_double(a, b);
  }
  double normal() {
    const uint32_t a = engine_(), b = engine_();
    return normal_wide(a, b);
  }

 private:
  at::Philox4_32 engine_;
};

// Poisson variates: products of uniforms for small rates, Hormann's transformed rejection (PTRS) for large ones.
double sample_poisson(double rate, Engine& engine) {
  if (!(rate > 0)) return 0;
  if (rate < 10) {
    const double limit = std::exp(-rate);
    double product = engine.uniform();
    int64_t k = 0;
    while (product > limit) {
      ++k;
      product *= engine.uniform();
    }
    return static_cast<double>(k);
  }
  const double log_rate = std::log(rate);
  const double b = 0.931 + 2.53 * std::sqrt(rate);
  const double a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  const double v_r = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = engine.uniform() - 0.5;
    const double v = engine.uniform();
    const double us = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= v_r) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (std::log(v) + std::log(inverse_alpha) - std::log(a / (us * us) + b) <=
        -rate + k * log_rate - std::lgamma(k + 1))
      return k;
  }
}

template <class Sample>
void per_element(const at::Tensor& out, uint32_t seed, const Sample& sample) {
  with_buffer<double>(out, [&](double* data) {
    at::parallel_for(0, out.numel(), 256, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Engine engine(seed, i);
        data[i] = sample(i, engine);
      }
    });
  });
}

at::Tensor dense_double(const at::Tensor& t, c10::IntArrayRef sizes) {
  return t.to(at::kDouble).expand(sizes).contiguous();
}

void uniform(const at::Tensor& out, uint32_t seed, double from, double to) {
  if (wide(out)) return of_uniform(out, seed, [=](double u) { return u * (to - from) + from; });
  const int bits = fraction_bits(out.scalar_type());
  const float from_f = static_cast<float>(from), range_f = static_cast<float>(to - from);
  const float unit = std::ldexp(1.0f, -bits);
  generate<float>(out, seed, [=](uint32_t a, uint32_t, int64_t) {
    // 31 random bits round to 1.0 in float32 for the top 64 values; those belong to the largest value below it.
    const float u = bits < 24 ? static_cast<float>((a & 0x7fffffff) >> (31 - bits)) * unit
                              : std::min(philox::to_float(a), 0x1.fffffep-1f);
    return u * range_f + from_f;
  });
}

void normal(const at::Tensor& out, uint32_t seed, double mean, double std) {
  const float mean_f = static_cast<float>(mean), std_f = static_cast<float>(std);
  of_normal(out, seed, [=](float x) { return x * std_f + mean_f; }, [=](double x) { return x * std + mean; });
}

void bernoulli(const at::Tensor& out, uint32_t seed, double p) {
  generate<float>(out, seed, [p](uint32_t a, uint32_t, int64_t) { return philox::to_float(a) < p ? 1.0f : 0.0f; });
}

void bernoulli_tensor(const at::Tensor& out, uint32_t seed, const at::Tensor& p) {
  const auto dense = dense_double(p, out.sizes());
  const double* prob = dense.const_data_ptr<double>();
  const int64_t n = out.numel();
  for (int64_t i = 0; i < n; ++i)
    TORCH_CHECK(prob[i] >= 0 && prob[i] <= 1, "Expected p_in >= 0 && p_in <= 1 to be true, but got false (bernoulli)");
  generate<float>(
      out, seed, [prob](uint32_t a, uint32_t, int64_t i) { return philox::to_float(a) < prob[i] ? 1.0f : 0.0f; });
}

// Integers in [from, from + range); range 0 means all 2^64 values.
void integers(const at::Tensor& out, uint32_t seed, const at::Scalar& from, const at::Scalar& range) {
  generate<int64_t>(
      out, seed,
      [first = static_cast<uint64_t>(from.toLong()), count = static_cast<uint64_t>(range.toLong())](
          uint32_t a, uint32_t b, int64_t) {
        const uint64_t r = static_cast<uint64_t>(b) << 32 | a;
        return static_cast<int64_t>((count ? r % count : r) + first);
      });
}

void exponential(const at::Tensor& out, uint32_t seed, double lambda) {
  of_uniform(out, seed, [=](double u) { return exponential_of(u) / lambda; });
}

void cauchy(const at::Tensor& out, uint32_t seed, double median, double sigma) {
  of_uniform(out, seed, [=](double u) { return median + sigma * std::tan(std::numbers::pi * (u - 0.5)); });
}

void log_normal(const at::Tensor& out, uint32_t seed, double mean, double std) {
  const auto made = [=](double x) { return std::exp(x * std + mean); };
  of_normal(out, seed, [=](float x) { return static_cast<float>(made(x)); }, made);
}

void geometric(const at::Tensor& out, uint32_t seed, double p) {
  const double scale = 1.0 / std::log1p(-p);
  generate<double>(out, seed, [=](uint32_t a, uint32_t b, int64_t) {
    return std::max(1.0, std::ceil(-exponential_of(philox::to_double(a, b)) * scale));
  });
}

// The integers below the number of elements, in some order.
void permutation(const at::Tensor& out, uint32_t seed) {
  const int64_t n = out.numel();
  with_buffer<int64_t>(out, [&](int64_t* data) {
    for (int64_t i = 0; i < n; ++i) data[i] = i;
    uint32_t a[kBlock], b[kBlock];
    for (int64_t i = 0; i + 1 < n; ++i) {
      if (i % kBlock == 0) philox::block(seed, static_cast<uint64_t>(i), a, b);
      const uint64_t r = static_cast<uint64_t>(b[i % kBlock]) << 32 | a[i % kBlock];
      std::swap(data[i], data[i + static_cast<int64_t>(r % static_cast<uint64_t>(n - i))]);
    }
  });
}

void dropout(const at::Tensor& out, const at::Tensor& mask, const at::Tensor& input, uint32_t seed, double p) {
  const float p_f = static_cast<float>(p);
  const float scale = static_cast<float>(1.0 / (1.0 - p));
  auto keep = [p_f](uint32_t a) { return philox::to_float(a) > p_f; };
  if (input.scalar_type() == at::kFloat && input.is_contiguous() && out.is_contiguous() && mask.is_contiguous()) {
    const float* x = input.const_data_ptr<float>();
    float* y = out.mutable_data_ptr<float>();
    generate<bool>(mask, seed, [=](uint32_t a, uint32_t, int64_t i) {
      const bool kept = keep(a);
      y[i] = static_cast<float>(kept) * x[i] * scale;
      return kept;
    });
    return;
  }
  generate<bool>(mask, seed, [=](uint32_t a, uint32_t, int64_t) { return keep(a); });
  out.copy_(at::mul(at::mul(mask, input), static_cast<double>(scale)));
}

void rrelu(
    const at::Tensor& out, const at::Tensor& noise, const at::Tensor& input, uint32_t seed, double lower,
    double upper) {
  uniform(noise, seed, lower, upper);
  const auto negative = input.le(0);
  const auto slope = at::where(negative, noise, at::ones_like(noise));
  const auto result = input.mul(slope);
  noise.copy_(slope);
  out.copy_(result);
}

void poisson(const at::Tensor& out, uint32_t seed, const at::Tensor& rate) {
  const auto r = dense_double(rate, out.sizes());
  const double* rates = r.const_data_ptr<double>();
  for (int64_t i = 0; i < r.numel(); ++i)
    TORCH_CHECK(rates[i] >= 0, "invalid Poisson rate, expected rate to be non-negative");
  per_element(out, seed, [rates](int64_t i, Engine& e) { return sample_poisson(rates[i], e); });
}

void binomial(const at::Tensor& out, uint32_t seed, const at::Tensor& count, const at::Tensor& p) {
  const auto c = dense_double(count, out.sizes()), q = dense_double(p, out.sizes());
  const double *counts = c.const_data_ptr<double>(), *probs = q.const_data_ptr<double>();
  per_element(out, seed, [=](int64_t i, Engine& e) {
    auto draw = [&e] { return e.uniform(); };
    BaseSampler<double, decltype(draw)> uniform(draw);
    return sample_binomial<double, double, decltype(draw)>(counts[i], probs[i], uniform);
  });
}

void gamma(const at::Tensor& out, uint32_t seed, const at::Tensor& alpha) {
  const auto a = dense_double(alpha, out.sizes());
  const double* alphas = a.const_data_ptr<double>();
  per_element(out, seed, [=](int64_t i, Engine& e) {
    auto draw_u = [&e] { return e.uniform(); };
    auto draw_n = [&e] { return e.normal(); };
    BaseSampler<double, decltype(draw_u)> uniform(draw_u);
    BaseSampler<double, decltype(draw_n)> normal(draw_n);
    const double x = sample_gamma<double, double, decltype(draw_u), decltype(draw_n)>(alphas[i], uniform, normal);
    return std::max(std::numeric_limits<double>::min(), x);
  });
}

}  // namespace random

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

Tensor& seeded_random_all(Tensor& self, const Scalar& seed, const Scalar& range) {
  return Fill<&random::integers>::call(self, seed, 0, range);
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
    else if constexpr (std::is_same_v<T, const Scalar&>)
      return t.item();
    else
      return t.item<T>();
  }
};

using Drawing = void (*)(const Tensor&, uint32_t, Parameters);
auto& drawings() {
  static auto* all = new std::unordered_map<std::string_view, Drawing>();
  return *all;
}

Tensor draw(
    c10::string_view distribution, at::IntArrayRef size, const Tensor& seed, Parameters parameters,
    at::ScalarType dtype) {
  const auto found = drawings().find(distribution);
  TORCH_CHECK(found != drawings().end(), "no distribution '", distribution, "'");
  auto out = at::empty(size, at::TensorOptions().dtype(dtype));
  found->second(out, static_cast<uint32_t>(seed.item<int64_t>()), parameters);
  return out;
}

// An operator, and the same distribution for `draw`.
template <auto kKernel, auto kOperator = &Fill<kKernel>::call>
void define(torch::Library& m, std::string_view distribution, const char* schema) {
  m.def(schema, torch::dispatch(c10::DispatchKey::CPU, kOperator));
  drawings()[distribution] = &Draw<kKernel>::call;
}

}  // namespace

// Whatever changes from call to call is a Scalar or a float: the generic kernel's signature counts those by type, so
// that a new seed is not a new signature. Ranges are the bits of an unsigned 64-bit number, 0 for all 2^64 integers.
TORCH_LIBRARY_FRAGMENT(openhpu, m) {
  define<&random::uniform>(m, "uniform", "uniform_(Tensor(a!) self, Scalar seed, float from, float to) -> Tensor(a!)");
  define<&random::normal>(m, "normal", "normal_(Tensor(a!) self, Scalar seed, float mean, float std) -> Tensor(a!)");
  define<&random::bernoulli>(m, "bernoulli", "bernoulli_.float(Tensor(a!) self, Scalar seed, float p) -> Tensor(a!)");
  define<&random::bernoulli_tensor>(
      m, "bernoulli_tensor", "bernoulli_.Tensor(Tensor(a!) self, Scalar seed, Tensor p) -> Tensor(a!)");
  define<&random::integers>(
      m, "integers", "random_.from(Tensor(a!) self, Scalar seed, Scalar start, Scalar range) -> Tensor(a!)");
  define<&random::exponential>(
      m, "exponential", "exponential_(Tensor(a!) self, Scalar seed, float lambd) -> Tensor(a!)");
  define<&random::cauchy>(
      m, "cauchy", "cauchy_(Tensor(a!) self, Scalar seed, float median, float sigma) -> Tensor(a!)");
  define<&random::log_normal>(
      m, "log_normal", "log_normal_(Tensor(a!) self, Scalar seed, float mean, float std) -> Tensor(a!)");
  define<&random::geometric>(m, "geometric", "geometric_(Tensor(a!) self, Scalar seed, float p) -> Tensor(a!)");
  define<&random::permutation>(m, "permutation", "randperm.generator_out(Tensor(a!) out, Scalar seed) -> Tensor(a!)");
  define<&random::poisson, &sample<&random::poisson>>(m, "poisson", "poisson(Tensor self, Scalar seed) -> Tensor");
  define<&random::binomial, &seeded_binomial>(
      m, "binomial", "binomial(Tensor count, Scalar seed, Tensor prob) -> Tensor");
  define<&random::gamma, &sample<&random::gamma>>(m, "gamma", "_standard_gamma(Tensor self, Scalar seed) -> Tensor");
  const auto cpu = [](auto* kernel) { return torch::dispatch(c10::DispatchKey::CPU, kernel); };
  m.def("random_(Tensor(a!) self, Scalar seed, Scalar range) -> Tensor(a!)", cpu(&seeded_random_all));
  m.def("native_dropout(Tensor input, Scalar seed, float p) -> (Tensor, Tensor)", cpu(&seeded_native_dropout));
  m.def(
      "rrelu_with_noise(Tensor self, Scalar seed, Tensor(a!) noise, Tensor(b!) out, float lower, float upper) -> "
      "Tensor(b!)",
      cpu(&rrelu_with_noise));
  // What recipes call where they do not generate the numbers themselves.
  m.def(
      "draw(str distribution, SymInt[] size, Tensor seed, Tensor[] parameters, ScalarType dtype) -> Tensor",
      cpu(&draw));
}

}  // namespace openhpu
