#include "run/Products.h"

#if defined(__x86_64__)
#define HAVE_AVX2_CPU_DEFINITION  // so that DispatchStub declares its kernels for AVX2
#endif
#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <ATen/Parallel.h>
#include <ATen/native/cpu/ReducedPrecisionFloatGemvFastPathKernel.h>
#include <ATen/ops/empty.h>

#include "run/Operator.h"

namespace at::native {
// libtorch_cpu exports it, and no header of PyTorch declares it. Weak: null if a later PyTorch has none.
__attribute__((weak)) void mkldnn_matmul(
    const Tensor& mat1, const Tensor& mat2, const Tensor& result, float beta, float alpha);
}  // namespace at::native

namespace openhpu {
namespace {

std::atomic<ProductRule> g_rule{ProductRule::kUsual};

// A call of oneDNN takes 10 us, which a smaller product does not save. MKL uses half of the units of a Zen 5, and nine
// tenths of those of a Zen 4, as on Intel's processors.
ProductBounds usual_bounds() {
#if defined(__x86_64__)
  const bool zen5 = __builtin_cpu_supports("avx512vp2intersect");  // which no earlier AMD has
  if (__builtin_cpu_is("amd")) {
    const int64_t least = int64_t{1} << (zen5 ? 22 : 23);
    return {least / 2, least, 2 * least};  // MKL shares a batch of small products among threads as a whole
  }
#endif
  return {INT64_MAX, INT64_MAX, INT64_MAX};
}

ProductBounds& bounds() {
  static ProductBounds kept = usual_bounds();
  return kept;
}

// A matrix, or each matrix of a batch, that lies in one piece, row by row or column by column. oneDNN copies others.
bool is_plain(const at::Tensor& t) {
  if (t.is_contiguous()) return true;
  const auto sizes = t.sizes(), strides = t.strides();
  const int64_t rows = t.dim() - 2, columns = t.dim() - 1;
  if (strides[rows] != 1 || strides[columns] != sizes[rows]) return false;
  return t.dim() == 2 || strides[0] == sizes[1] * sizes[2];
}

bool is_matrix(const at::Tensor& t, int64_t dim, at::ScalarType type) {
  return t.defined() && t.scalar_type() == type && t.layout() == at::kStrided && t.dim() == dim && !t.is_neg() &&
         t.numel() > 0;
}

bool is_chosen(const at::Tensor& a, const at::Tensor& b) {
  const auto rule = g_rule.load(std::memory_order_relaxed);
  if (rule != ProductRule::kUsual) return rule == ProductRule::kAlways;
  constexpr int64_t kLeastSize = 4, kSkinny = 16;
  const int64_t m = a.size(-2), k = a.size(-1), n = b.size(-1), batch = a.dim() == 3 ? a.size(0) : 1;
  // Fewer rows wait for memory, which oneDNN reads faster than MKL if b lies by columns, as the weights of `linear` do.
  const bool by_columns = a.dim() == 2 && b.stride(0) == 1 && b.stride(1) == k;
  if (std::min(k, n) < kLeastSize || (m < kLeastSize && !by_columns)) return false;
  const ProductBounds& from = bounds();
  // In floating point, since the sizes of a meta tensor may give more multiplications than an integer holds.
  const double multiplications = static_cast<double>(m) * n * k * batch;
  if (batch > 1) return multiplications >= static_cast<double>(from.batch);
  return multiplications >= static_cast<double>(std::min(m, n) < kSkinny ? from.skinny : from.single);
}

// Who computes a product: PyTorch's kernel, oneDNN, or a dot product for each number of the result.
enum class Way { kKernel, kOneDnn, kDots };

// A row in bfloat16 waits for b, of which dot products read each column once. oneDNN first copies b. Its bits are those
// of several rows together, which small products keep: scripts compare them.
bool is_row(const at::Tensor& a, const at::Tensor& b) {
#if defined(__x86_64__)
  static const bool possible = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  constexpr bool possible = false;  // not measured there
#endif
  return possible && g_rule.load(std::memory_order_relaxed) == ProductRule::kUsual && a.dim() == 2 && a.size(0) == 1 &&
         a.stride(1) == 1 && b.stride(0) == 1 && static_cast<double>(a.size(1)) * b.size(1) >= 1 << 17;
}

Way way_of(const at::Tensor& a, const at::Tensor& b) {
  const int64_t dim = a.defined() ? a.dim() : 0;
  if (dim != 2 && dim != 3) return Way::kKernel;
  const auto type = a.scalar_type();
  if (!is_matrix(a, dim, type) || !is_matrix(b, dim, type)) return Way::kKernel;
  if (a.size(-1) != b.size(-2) || (dim == 3 && a.size(0) != b.size(0))) return Way::kKernel;
  if (type == at::kBFloat16) return is_row(a, b) ? Way::kDots : Way::kKernel;
  const bool suits = type == at::kFloat && has_onednn_products() && is_chosen(a, b) && is_plain(a) && is_plain(b) &&
                     at::globalContext().userEnabledMkldnn();
  return suits ? Way::kOneDnn : Way::kKernel;
}

c10::SmallVector<int64_t, 3> sizes_of(const at::Tensor& a, const at::Tensor& b) {
  c10::SmallVector<int64_t, 3> sizes(a.sizes().begin(), a.sizes().end());
  sizes.back() = b.size(-1);
  return sizes;
}

bool takes_result(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  return is_matrix(out, a.dim(), a.scalar_type()) && out.is_contiguous() &&
         out.sizes() == c10::IntArrayRef(sizes_of(a, b)) && !out.is_alias_of(a) && !out.is_alias_of(b);
}

bool can_be_added(const at::Tensor& self, const at::Tensor& a, const at::Tensor& b) {
  return self.scalar_type() == a.scalar_type() && !self.is_neg() && at::is_expandable_to(self.sizes(), sizes_of(a, b));
}

void compute_dots(
    const at::Tensor& out, const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, float beta, float alpha) {
  constexpr int64_t kMultiplicationsOfThread = 1 << 16;
#if defined(__x86_64__)
  const auto dot = decltype(at::native::bf16_dot_stub)::AVX2;  // sums in float32
#else
  const auto dot = decltype(at::native::bf16_dot_stub)::DEFAULT;
#endif
  const int64_t k = a.size(1), n = b.size(1);
  const at::Tensor added = beta != 0 ? self.expand(out.sizes()) : out;
  const auto *row = a.const_data_ptr<at::BFloat16>(), *columns = b.const_data_ptr<at::BFloat16>();
  const auto* terms = added.const_data_ptr<at::BFloat16>();
  auto* results = out.mutable_data_ptr<at::BFloat16>();
  at::parallel_for(0, n, at::divup(kMultiplicationsOfThread, k), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float sum = alpha * dot(k, row, 1, columns + i * b.stride(1), 1);
      results[i] = beta == 0 ? sum : sum + beta * static_cast<float>(terms[i * added.stride(1)]);
    }
  });
}

void compute(
    Way way, const at::Tensor& out, const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, double beta,
    double alpha) {
  if (way == Way::kDots) return compute_dots(out, self, a, b, static_cast<float>(beta), static_cast<float>(alpha));
  if (beta != 0 && !self.is_same(out)) out.copy_(self.expand(out.sizes()));
  if (beta != 0 && beta != 1) out.mul_(beta);
  at::native::mkldnn_matmul(a, b, out, beta != 0, static_cast<float>(alpha));
}

enum class Result { kNew, kSelf, kOut };

template <bool adds, Result where>
void call(const Operator& op, c10::Stack& stack) {
  constexpr size_t first = adds ? 1 : 0;
  const at::Tensor a = stack[first].toTensor(), b = stack[first + 1].toTensor();
  const Way way = way_of(a, b);
  if (way == Way::kKernel) return op.call_kernel(stack);
  at::Tensor self, out;
  double beta = 0, alpha = 1;
  if constexpr (adds) {
    self = stack[0].toTensor();
    if (stack[3].isComplexDouble() || stack[4].isComplexDouble()) return op.call_kernel(stack);
    beta = stack[3].toScalar().toDouble();
    alpha = stack[4].toScalar().toDouble();
    if (alpha == 0 || !can_be_added(self, a, b)) return op.call_kernel(stack);
  }
  if constexpr (where != Result::kNew) {
    out = where == Result::kSelf ? self : stack.back().toTensor();
    if (!takes_result(out, a, b) || (!out.is_same(self) && self.defined() && out.is_alias_of(self)))
      return op.call_kernel(stack);
  } else {
    out = at::empty(sizes_of(a, b), a.options());
  }
  compute(way, out, self, a, b, beta, alpha);
  stack.clear();
  stack.emplace_back(std::move(out));
}

}  // namespace

// mkldnn_matmul refuses float32 on other processors.
bool has_onednn_products() noexcept {
#if defined(__x86_64__)
  static const bool found = at::native::mkldnn_matmul && __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return found;
#else
  return false;
#endif
}

ProductBounds product_bounds() noexcept { return bounds(); }
void set_product_bounds(const ProductBounds& measured) noexcept { bounds() = measured; }

bool product_by_rule(
    const at::Tensor& out, const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, double beta,
    double alpha) {
  const Way way = way_of(a, b);
  if (way == Way::kKernel || !takes_result(out, a, b) || alpha == 0) return false;
  if (beta != 0 && (!can_be_added(self, a, b) || (!out.is_same(self) && out.is_alias_of(self)))) return false;
  compute(way, out, self, a, b, beta, alpha);
  return true;
}

OwnCall product_call_of(const std::string& name) {
  static const auto* table = new std::unordered_map<std::string, OwnCall>{
      {"aten::mm", &call<false, Result::kNew>},         {"aten::mm.out", &call<false, Result::kOut>},
      {"aten::bmm", &call<false, Result::kNew>},        {"aten::bmm.out", &call<false, Result::kOut>},
      {"aten::addmm", &call<true, Result::kNew>},       {"aten::addmm.out", &call<true, Result::kOut>},
      {"aten::addmm_", &call<true, Result::kSelf>},     {"aten::baddbmm", &call<true, Result::kNew>},
      {"aten::baddbmm.out", &call<true, Result::kOut>}, {"aten::baddbmm_", &call<true, Result::kSelf>},
  };
  const auto it = table->find(name);
  return it == table->end() ? nullptr : it->second;
}

void set_product_rule(ProductRule rule) noexcept { g_rule.store(rule, std::memory_order_relaxed); }

}  // namespace openhpu
