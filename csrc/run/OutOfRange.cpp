#include "run/Operator.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/Parallel.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ScatterGatherChecks.h>
#include <ATen/ops/atleast_1d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/where.h>

#include "device/command_queue.h"
#include "observe/site.h"
#include "run/KernelMemory.h"

namespace openhpu {
namespace {

using at::Tensor;

// The valid indices: from `low` to below `size`. `low` is 0, or -size if negative indices count from the end.
struct Range {
  int64_t low, size;
};

bool is_index(const Tensor& t) {
  return t.defined() && t.layout() == c10::kStrided && (t.scalar_type() == at::kLong || t.scalar_type() == at::kInt);
}

// Compiled for each of these instruction sets too; the processor's is taken.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define OPENHPU_BY_INSTRUCTION_SET __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define OPENHPU_BY_INSTRUCTION_SET
#endif

// The sign bit of the result is set if one is out of range: then i - low or size - 1 - i is negative. Where one of the
// differences has no room in 64 bits, the other is negative. No branch, so that compilers use vectors.
OPENHPU_BY_INSTRUCTION_SET uint64_t dense_signs(const int64_t* at, int64_t count, uint64_t low, uint64_t last) {
  uint64_t found = 0;
  for (int64_t k = 0; k < count; ++k) {
    const auto i = static_cast<uint64_t>(at[k]);
    found |= (i - low) | (last - i);
  }
  return found;
}

OPENHPU_BY_INSTRUCTION_SET uint64_t dense_signs(const int32_t* at, int64_t count, uint64_t low, uint64_t last) {
  uint64_t found = 0;
  for (int64_t k = 0; k < count; ++k) {
    const auto i = static_cast<uint64_t>(static_cast<int64_t>(at[k]));
    found |= (i - low) | (last - i);
  }
  return found;
}

bool any_out_of(const Tensor& index, Range range) {
  if (!index.is_contiguous() && !index.is_non_overlapping_and_dense()) {
    const AsideOfKernel aside;
    Tensor once = index;  // what is expanded is looked at once
    for (int64_t d = index.dim() - 1; d >= 0; --d)
      if (index.stride(d) == 0) once = once.select(d, 0);
    return any_out_of(once.contiguous(), range);
  }
  const auto low = static_cast<uint64_t>(range.low), last = static_cast<uint64_t>(range.size - 1);
  const auto signs = [&](int64_t begin, int64_t end, uint64_t found) {
    return found | (index.scalar_type() == at::kLong
                        ? dense_signs(index.const_data_ptr<int64_t>() + begin, end - begin, low, last)
                        : dense_signs(index.const_data_ptr<int32_t>() + begin, end - begin, low, last));
  };
  constexpr int64_t kGrain = 1 << 16;
  if (index.numel() <= kGrain) return signs(0, index.numel(), 0) >> 63;
  return at::parallel_reduce(0, index.numel(), kGrain, uint64_t{0}, signs, std::bit_or<uint64_t>()) >> 63;
}

// Which of them are. They are added to `found`.
Tensor out_of(const Tensor& index, Range range, IndicesOutOfRange& found) {
  const auto wide = index.to(at::kLong);  // in which the bounds have room
  auto bad = wide.lt(range.low).logical_or_(wide.ge(range.size));
  const auto wrong = wide.masked_select(bad), others = wrong.masked_select(wrong.ne(-1));
  if (found.count == found.padding) {
    found.example = others.numel() > 0 ? *others.const_data_ptr<int64_t>() : -1;
    found.size = range.size;
  }
  found.count += wrong.numel();
  found.padding += wrong.numel() - others.numel();
  return bad;
}

// Once the kernel has run: one that refuses its arguments may be called again with others.
void note(const Operator& op, const IndicesOutOfRange& found) {
  if (t_unnoted_indices) return;
  note_indices(user_name(op), running_site(), found);
}

// The same memory as integers, in which nothing is zero but zero, and which any kernel can write.
Tensor bits(const Tensor& t) {
  switch (t.element_size()) {
    case 1:
      return t.view(at::kByte);
    case 2:
      return t.view(at::kShort);
    case 4:
      return t.view(at::kInt);
    case 8:
      return t.view(at::kLong);
    default:
      return t;
  }
}

// Of a copy that has more elements: those that `self` has, at their places.
Tensor part_of(const Tensor& wide, const Tensor& self) { return wide.as_strided(self.sizes(), wide.strides()); }

// A copy with one more element along each of these dimensions, a zero: the place for indices out of range.
Tensor with_place(const Tensor& self, c10::IntArrayRef dims) {
  const auto from = bits(self);
  auto sizes = self.sizes().vec();
  for (const auto dim : dims) ++sizes[dim];
  const auto wide = at::empty_strided(sizes, at::infer_dense_strides(sizes, self.strides()), from.options()).zero_();
  part_of(wide, from).copy_(from);
  return wide.view(self.scalar_type());
}

// (self, dim, index, ...): nothing where the kernel's own checks are to speak.
std::optional<int64_t> indexed_dim(const c10::Stack& stack) {
  const auto& self = stack[0].toTensor();
  const auto& index = stack[2].toTensor();
  const int64_t dim = stack[1].toInt(), dims = std::max<int64_t>(self.dim(), 1);
  if (!is_index(index) || dim < -dims || dim >= dims) return std::nullopt;
  return dim < 0 ? dim + dims : dim;
}

int64_t size_along(const Tensor& t, int64_t dim) { return t.dim() == 0 ? 1 : t.size(dim); }

void read_along(const Operator& op, c10::Stack& stack, bool rows) {
  const auto dim = indexed_dim(stack);
  if (!dim || !lenient_indices()) return op.call_kernel(stack);
  const Tensor index = stack[2].toTensor();
  const Range range{0, size_along(stack[0].toTensor(), *dim)};
  if (!any_out_of(index, range)) return op.call_kernel(stack);
  Tensor bad;
  IndicesOutOfRange found;
  {
    const AsideOfKernel aside;
    bad = out_of(index, range, found);
    if (range.size == 0) stack[0] = with_place(stack[0].toTensor(), *dim);
    stack[2] = index.masked_fill(bad, 0);
  }
  op.call_kernel(stack);
  note(op, found);
  const AsideOfKernel aside;
  auto result = bits(stack.back().toTensor());
  if (!rows || result.dim() == 0)
    result.masked_fill_(rows ? bad.reshape({}) : bad, 0);
  else
    result.index_fill_(*dim, bad.reshape({-1}).nonzero().squeeze(1), 0);
}

void index_select(const Operator& op, c10::Stack& stack) { read_along(op, stack, /*rows=*/true); }
void gather(const Operator& op, c10::Stack& stack) { read_along(op, stack, /*rows=*/false); }

// Calls the kernel with the indices, which are argument `at`, that exist; and with their rows of argument `rows`, if
// there is one: along `dim`, or, if that is negative, with a row for each index.
void call_with_kept(const Operator& op, c10::Stack& stack, size_t at, Range range, int rows = -1, int64_t dim = 0) {
  const Tensor index = stack[at].toTensor();
  if (!lenient_indices() || !is_index(index) || !any_out_of(index, range)) return op.call_kernel(stack);
  IndicesOutOfRange found;
  {
    const AsideOfKernel aside;
    const auto keep = out_of(index, range, found).logical_not_().reshape({-1}).nonzero().squeeze(1);
    stack[at] = index.reshape({-1}).index_select(0, keep);
    if (rows >= 0) {
      const Tensor given = stack[rows].toTensor();
      const auto all = dim < 0 ? given.reshape({index.numel(), -1}) : at::atleast_1d(given);
      stack[rows] = all.index_select(std::max<int64_t>(dim, 0), keep);
    }
  }
  op.call_kernel(stack);
  note(op, found);
}

// (self, dim, index, ...): calls the kernel with one more element along the dimension to write to, and cuts it off
// again.
void write_widely(const Operator& op, c10::Stack& stack, int64_t dim, Range range) {
  const Tensor self = stack[0].toTensor(), index = stack[2].toTensor();
  Tensor out, result;
  IndicesOutOfRange found;
  {
    const AsideOfKernel aside;
    if (op.args()[0].written) at::assert_no_internal_overlap(out = self);
    const auto row = at::atleast_1d(self);
    stack[0] = with_place(row, dim);
    stack[2] = index.to(at::kLong).masked_fill(out_of(index, range, found), range.size);
    if (op.schema().arguments().back().is_out()) {
      out = stack.back().toTensor();
      stack.back() = at::empty({0}, out.options());
    }
    op.call_kernel(stack);
    result = part_of(stack[0].toTensor(), row).view(self.sizes());
  }
  note(op, found);
  if (out.defined()) {
    at::native::resize_output(out, self.sizes());
    bits(out).copy_(bits(result));
    stack = {out};
  } else {
    stack = {result.clone(at::MemoryFormat::Contiguous)};
  }
}

// index_copy, index_add, index_reduce
void write_rows(const Operator& op, c10::Stack& stack) {
  const auto dim = indexed_dim(stack);
  if (!dim || !lenient_indices()) return op.call_kernel(stack);
  const Tensor &self = stack[0].toTensor(), &index = stack[2].toTensor(), &source = stack[3].toTensor();
  const Range range{0, size_along(self, *dim)};
  if (!any_out_of(index, range)) return op.call_kernel(stack);
  // Rows that do not fit are an error, regardless of their indices.
  bool fits =
      index.dim() <= 1 && source.scalar_type() == self.scalar_type() && size_along(source, *dim) == index.numel();
  if (source.dim() > 0 && self.dim() > 0) {
    fits &= source.dim() == self.dim();
    for (int64_t d = 0; fits && d < self.dim(); ++d) fits = d == *dim || source.size(d) == self.size(d);
  }
  if (!fits) return op.call_kernel(stack);
  if (self.dim() > 0) return call_with_kept(op, stack, 2, range, 3, *dim);
  stack[3] = at::atleast_1d(source);  // the kernel refuses to write nothing to one element
  write_widely(op, stack, 0, range);
}

void index_fill_(const Operator& op, c10::Stack& stack) {
  const auto dim = indexed_dim(stack);
  if (!dim || stack[2].toTensor().dim() > 1) return op.call_kernel(stack);
  const auto size = size_along(stack[0].toTensor(), *dim);
  call_with_kept(op, stack, 2, {-size, size});
}

void scatter(const Operator& op, c10::Stack& stack) {
  const auto dim = indexed_dim(stack);
  if (!dim || !lenient_indices()) return op.call_kernel(stack);
  const Tensor &self = stack[0].toTensor(), &index = stack[2].toTensor();
  const Range range{0, size_along(self, *dim)};
  if (!any_out_of(index, range)) return op.call_kernel(stack);
  std::optional<Tensor> source;
  if (stack[3].isTensor()) source = stack[3].toTensor();
  at::native::scatter_shape_check(self, *dim, index, source);
  write_widely(op, stack, *dim, range);
}

bool is_mask(const Tensor& t) { return t.defined() && (t.scalar_type() == at::kBool || t.scalar_type() == at::kByte); }

// Whether one of the tensors of an advanced index is out of range, at the least cost. False, too, for what the kernel
// refuses.
bool any_out_of(const Tensor& self, c10::ArrayRef<Tensor> indices) {
  int64_t dim = 0;
  bool found = false;
  for (const auto& t : indices) {
    const int64_t count = is_mask(t) ? t.dim() : 1;
    if (dim + count > self.dim() || (is_mask(t) && t.sizes() != self.sizes().slice(dim, count))) return false;
    if (t.defined() && !is_mask(t)) {
      if (!is_index(t)) return false;
      found |= any_out_of(t, {-self.size(dim), self.size(dim)});
    }
    dim += count;
  }
  return found;
}

// index, index_put_
void index(const Operator& op, c10::Stack& stack) {
  if (!lenient_indices()) return op.call_kernel(stack);
  const Tensor self = stack[0].toTensor();
  std::vector<Tensor> indices;
  for (const auto& e : stack[1].toListRef()) indices.push_back(e.isTensor() ? e.toTensor() : Tensor());
  if (!any_out_of(self, indices)) return op.call_kernel(stack);
  IndicesOutOfRange found;
  {
    const AsideOfKernel aside;
    c10::List<std::optional<Tensor>> existing;
    std::vector<int64_t> dims;
    int64_t dim = 0;
    for (const auto& t : indices) {
      if (!t.defined() || is_mask(t)) {
        existing.push_back(t.defined() ? std::optional(t) : std::nullopt);
        dim += t.defined() ? t.dim() : 1;
        continue;
      }
      const int64_t size = self.size(dim);
      const auto bad = out_of(t, {-size, size}, found), index = t.to(at::kLong);
      // Negative ones would mean other elements now.
      existing.push_back(at::where(index.lt(0), index.add(size), index).masked_fill_(bad, size));
      dims.push_back(dim++);
    }
    stack[0] = with_place(self, dims);
    stack[1] = std::move(existing);
  }
  op.call_kernel(stack);
  note(op, found);
  if (!op.args()[0].written) return;
  bits(self).copy_(part_of(bits(stack[0].toTensor()), self));
  stack[0] = self;
}

// (grad_output, indices, num_weights, ...): rows of the gradient that belong to no row are dropped.
void embedding_dense_backward(const Operator& op, c10::Stack& stack) {
  const Tensor &grad = stack[0].toTensor(), &index = stack[1].toTensor();
  if (grad.dim() == 0 || index.numel() == 0 || grad.numel() % index.numel()) return op.call_kernel(stack);
  call_with_kept(op, stack, 1, {0, stack[2].toInt()}, /*rows=*/0, /*dim=*/-1);
}

// (self, indices, ...)
void embedding_renorm_(const Operator& op, c10::Stack& stack) {
  call_with_kept(op, stack, 1, {0, size_along(stack[0].toTensor(), 0)});
}

}  // namespace

OwnCall indexed_call_of(const std::string& name) {
  static const auto* table = [] {
    auto* rows = new std::unordered_map<std::string, OwnCall>{
        {"aten::index_select", &index_select},
        {"aten::gather", &gather},
        {"aten::index", &index},
        {"aten::index_put_", &index},
        {"aten::_index_put_impl_", &index},
        {"aten::index_fill_", &index_fill_},
        {"aten::embedding_dense_backward", &embedding_dense_backward},
        {"aten::embedding_renorm_", &embedding_renorm_},
    };
    for (const std::string name : {"index_copy", "index_add", "index_reduce"})
      (*rows)["aten::" + name] = (*rows)["aten::" + name + "_"] = &write_rows;
    for (const std::string name : {"scatter", "scatter_add", "scatter_reduce"})
      (*rows)["aten::" + name] = (*rows)["aten::" + name + "_"] = &scatter;
    return rows;
  }();
  const auto it = table->find(name.substr(0, name.find('.')));
  return it == table->end() ? nullptr : it->second;
}

uint32_t running_site() {
  const auto running = device::CommandQueue::running_site();
  return running ? *running : current_site();
}

std::string user_name(const Operator& op) {
  auto name = op.name();
  const auto end = std::min(name.find(' '), name.size());  // of a user's operator the guid follows
  if (const auto dot = name.find('.'); dot < end) name.erase(dot, end - dot);
  return name == "aten::_index_put_impl_" ? "aten::index_put_" : name;
}

}  // namespace openhpu
