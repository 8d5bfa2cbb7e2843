#include "run/Operator.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/Parallel.h>
#include <ATen/ops/atleast_1d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

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
    return found |
        (index.scalar_type() == at::kLong ? dense_signs(index.const_data_ptr<int64_t>() + begin, end - begin, low, last)
                                          : dense_signs(index.const_data_ptr<int32_t>() + begin, end - begin, low, last));
  };
  constexpr int64_t kGrain = 1 << 16;
  if (index.numel() <= kGrain) return signs(0, index.numel(), 0) >> 63;
  return at::parallel_reduce(0, index.numel(), kGrain, uint64_t{0}, signs, std::bit_or<uint64_t>()) >> 63;
}

Tensor out_of(const Tensor& index, Range range) {
  const auto wide = index.to(at::kLong);  // in which the bounds have room
  return wide.lt(range.low).logical_or_(wide.ge(range.size));
}

IndicesOutOfRange summary(const Tensor& index, const Tensor& bad, Range range) {
  const auto wrong = index.masked_select(bad).to(at::kLong);
  const auto others = wrong.masked_select(wrong.ne(-1));
  IndicesOutOfRange found{wrong.numel(), wrong.numel() - others.numel(), -1, range.size};
  if (others.numel() > 0) found.example = *others.const_data_ptr<int64_t>();
  return found;
}

// Once the kernel has run: one that refuses its arguments may be called again with others.
void note(const Operator& op, const IndicesOutOfRange& found) {
  if (t_unnoted_indices) return;
  note_indices(user_name(op), running_site(), found);
}

// The flat positions of the indices that exist.
Tensor kept(const Tensor& index, Range range, IndicesOutOfRange& found) {
  const auto bad = out_of(index, range);
  found = summary(index, bad, range);
  return bad.logical_not().reshape({-1}).nonzero().squeeze(1);
}

// The same memory as integers, in which nothing is zero but zero, and which any kernel can write.
Tensor bits(const Tensor& t) {
  switch (t.element_size()) {
    case 1: return t.view(at::kByte);
    case 2: return t.view(at::kShort);
    case 4: return t.view(at::kInt);
    case 8: return t.view(at::kLong);
    default: return t;
  }
}

// A dimension without elements as one of zeros, to read from.
Tensor with_elements(const Tensor& self, c10::IntArrayRef dims) {
  if (self.dim() == 0) return self;
  auto sizes = self.sizes().vec();
  for (auto d : dims)
    if (sizes[d] == 0) sizes[d] = 1;
  return sizes == self.sizes() ? self : at::zeros({}, self.options()).expand(sizes);
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
    bad = out_of(index, range);
    found = summary(index, bad, range);
    stack[0] = with_elements(stack[0].toTensor(), *dim);
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

// Calls the kernel with the indices, which are argument `at`, that exist; and with their rows of argument `rows`, if there
// is one: along `dim`, or, if that is negative, with a row for each index.
void call_with_kept(const Operator& op, c10::Stack& stack, size_t at, Range range, int rows = -1, int64_t dim = 0) {
  const Tensor index = stack[at].toTensor();
  if (!lenient_indices() || !is_index(index) || !any_out_of(index, range)) return op.call_kernel(stack);
  IndicesOutOfRange found;
  {
    const AsideOfKernel aside;
    const auto keep = kept(index, range, found);
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

// The same where there is one element, which is not written. The kernel refuses to write nothing to it.
void write_nothing(const Operator& op, c10::Stack& stack, Range range) {
  const Tensor self = stack[0].toTensor(), index = stack[2].toTensor();
  IndicesOutOfRange found;
  {
    const AsideOfKernel aside;
    kept(index, range, found);
  }
  if (op.schema().arguments()[0].alias_info())
    stack = {self};
  else if (op.schema().arguments().back().is_out())
    stack = {stack.back().toTensor().resize_(self.sizes()).copy_(self)};
  else
    stack = {self.clone()};
  note(op, found);
}

// index_copy, index_add, index_reduce
void write_rows(const Operator& op, c10::Stack& stack) {
  const auto dim = indexed_dim(stack);
  if (!dim || !lenient_indices()) return op.call_kernel(stack);
  const Tensor &self = stack[0].toTensor(), &index = stack[2].toTensor(), &source = stack[3].toTensor();
  const Range range{0, size_along(self, *dim)};
  if (!any_out_of(index, range)) return op.call_kernel(stack);
  // Rows that do not fit are an error, regardless of their indices.
  bool fits = index.dim() <= 1 && source.scalar_type() == self.scalar_type() &&
      size_along(source, *dim) == index.numel();
  if (source.dim() > 0 && self.dim() > 0) {
    fits &= source.dim() == self.dim();
    for (int64_t d = 0; fits && d < self.dim(); ++d) fits = d == *dim || source.size(d) == self.size(d);
  }
  if (!fits) return op.call_kernel(stack);
  if (self.dim() == 0) return write_nothing(op, stack, range);
  call_with_kept(op, stack, 2, range, 3, *dim);
}

void index_fill_(const Operator& op, c10::Stack& stack) {
  const auto dim = indexed_dim(stack);
  if (!dim || stack[2].toTensor().dim() > 1) return op.call_kernel(stack);
  const auto size = size_along(stack[0].toTensor(), *dim);
  call_with_kept(op, stack, 2, {-size, size});
}

c10::List<std::optional<Tensor>> as_list(const std::vector<Tensor>& tensors) {
  c10::List<std::optional<Tensor>> list;
  for (const auto& t : tensors) list.push_back(t.defined() ? std::optional(t) : std::nullopt);
  return list;
}

// The operator in place, with the arguments that it has in common with one that is not.
void call_in_place(const Operator& op, c10::Stack& stack) {
  const auto& name = op.name();  // aten::scatter.src_out
  const auto dot = name.find('.');
  std::string base = name.substr(0, dot), overload = dot == std::string::npos ? "" : name.substr(dot + 1);
  if (base.back() != '_') base += '_';
  for (const char* end : {"_out", "out"})
    if (overload.size() >= strlen(end) && overload.ends_with(end)) overload.resize(overload.size() - strlen(end));
  c10::Dispatcher::singleton().findSchemaOrThrow(base.c_str(), overload.c_str()).callBoxed(&stack);
}

void scatter(const Operator& op, c10::Stack& stack) {
  const auto dim = indexed_dim(stack);
  if (!dim || !lenient_indices()) return op.call_kernel(stack);
  const Tensor self = stack[0].toTensor(), index = stack[2].toTensor();
  const Range range{0, size_along(self, *dim)};
  if (!any_out_of(index, range)) return op.call_kernel(stack);
  const Tensor src = stack[3].isTensor() ? stack[3].toTensor() : Tensor();
  const auto same_dims = [&](const Tensor& t) { return std::max<int64_t>(t.dim(), 1) == std::max<int64_t>(self.dim(), 1); };
  bool fits = same_dims(index) && (!src.defined() || (same_dims(src) && src.scalar_type() == self.scalar_type()));
  for (int64_t d = 0; fits && d < index.dim(); ++d)
    fits = (d == *dim || index.size(d) <= size_along(self, d)) && (!src.defined() || index.size(d) <= size_along(src, d));
  const bool in_place = op.schema().arguments()[0].alias_info() != nullptr;
  fits &= !in_place || at::has_internal_overlap(self) != at::MemOverlap::Yes;
  if (!fits) return op.call_kernel(stack);

  // What is written is written element by element, at its place in memory. Arguments of the operator in place:
  c10::Stack elements = stack;
  if (op.schema().arguments().back().is_out()) elements.pop_back();
  std::vector<Tensor> coordinates;
  IndicesOutOfRange found;
  {
    const AsideOfKernel aside;
    const auto bad = out_of(index, range);
    found = summary(index, bad, range);
    coordinates = at::atleast_1d(bad).logical_not().nonzero().unbind(1);
    const auto places = as_list(coordinates);
    elements[2] = at::atleast_1d(index).index(places);
    if (src.defined()) elements[3] = at::atleast_1d(src).index(places);
    if (!in_place) {  // the kernel copies what is not written
      stack[2] = at::empty({0}, index.options());
      if (src.defined()) stack[3] = at::empty({0}, src.options());
    }
  }
  if (!in_place)
    op.call_kernel(stack);
  else
    stack = {self};
  note(op, found);
  if (coordinates[0].numel() == 0) return;
  const AsideOfKernel aside;
  const Tensor target = stack[0].toTensor();
  auto places = at::zeros(coordinates[0].sizes(), at::kLong);
  int64_t extent = 1;
  for (int64_t d = 0; d < target.dim(); ++d) {
    places.add_(d == *dim ? elements[2].toTensor() : coordinates[d], target.stride(d));
    extent += (target.size(d) - 1) * target.stride(d);
  }
  elements[0] = target.as_strided({extent}, {1});
  elements[1] = 0;
  elements[2] = places;
  call_in_place(op, elements);
}

// The tensors of an advanced index, masks as the indices that they stand for, and where they lie.
struct AdvancedIndex {
  std::vector<Tensor> indices;  // by dimension; not defined: the dimension is taken whole
  std::vector<int64_t> shape;   // of the indices together
  Tensor bad;                   // of this shape; not defined: none
  int64_t place = 0;            // of their dimensions in the result
  int64_t count = 0;            // of indexed dimensions
  IndicesOutOfRange found;
};

std::vector<Tensor> tensors_of(const c10::IValue& list) {
  std::vector<Tensor> out;
  for (const auto& e : list.toListRef()) out.push_back(e.isTensor() ? e.toTensor() : Tensor());
  return out;
}

bool is_mask(const Tensor& t) { return t.defined() && (t.scalar_type() == at::kBool || t.scalar_type() == at::kByte); }

// Whether one of them is out of range, at the least cost. False, too, for what the kernel refuses.
bool any_out_of(const Tensor& self, const std::vector<Tensor>& indices) {
  int64_t dim = 0;
  bool found = false;
  for (const auto& t : indices) {
    if (is_mask(t)) {
      dim += t.dim();
      continue;
    }
    if (dim >= self.dim() || (t.defined() && !is_index(t))) return false;
    if (t.defined()) found |= any_out_of(t, {-self.size(dim), self.size(dim)});
    ++dim;
  }
  return found && dim <= self.dim();
}

std::optional<AdvancedIndex> advanced_index(const Tensor& self, const std::vector<Tensor>& given) {
  AdvancedIndex a;
  for (const auto& t : given) {
    if (!is_mask(t)) {
      a.indices.push_back(t);
      continue;
    }
    for (int64_t d = 0; d < t.dim(); ++d)
      if (t.size(d) != self.size(static_cast<int64_t>(a.indices.size()) + d)) return std::nullopt;
    for (const auto& c : t.nonzero().unbind(1)) a.indices.push_back(c);
  }
  std::vector<Tensor> defined;
  for (const auto& t : a.indices)
    if (t.defined()) defined.push_back(t);
  try {
    for (const auto& t : defined) a.shape = at::infer_size(a.shape, t.sizes());
  } catch (const c10::Error&) {
    return std::nullopt;
  }
  int64_t first = -1, last = -1;
  a.bad = at::zeros(a.shape, at::kBool);
  for (size_t d = 0; d < a.indices.size(); ++d) {
    auto& t = a.indices[d];
    if (!t.defined()) continue;
    const int64_t dim = static_cast<int64_t>(d), size = self.size(dim);
    const Range range{-size, size};
    const auto bad = out_of(t, range);
    const auto found = summary(t, bad, range);
    if (a.found.count == a.found.padding) a.found.example = found.example, a.found.size = found.size;
    a.found.count += found.count;
    a.found.padding += found.padding;
    t = t.masked_fill(bad, 0);
    a.bad.logical_or_(bad);
    if (first < 0) first = dim;
    last = dim;
    ++a.count;
  }
  a.place = last - first + 1 == a.count ? first : 0;
  return a;
}

void index(const Operator& op, c10::Stack& stack) {
  if (!lenient_indices()) return op.call_kernel(stack);
  const Tensor self = stack[0].toTensor();
  const auto given = tensors_of(stack[1]);
  if (!any_out_of(self, given)) return op.call_kernel(stack);
  std::optional<AdvancedIndex> a;
  {
    const AsideOfKernel aside;
    a = advanced_index(self, given);
    if (a) {
      std::vector<int64_t> dims;
      for (size_t d = 0; d < a->indices.size(); ++d)
        if (a->indices[d].defined()) dims.push_back(static_cast<int64_t>(d));
      stack[0] = with_elements(self, dims);
      stack[1] = as_list(a->indices);
    }
  }
  op.call_kernel(stack);
  if (!a) return;
  note(op, a->found);
  const AsideOfKernel aside;
  auto shape = a->shape;
  shape.resize(shape.size() + (self.dim() - a->count - a->place), 1);
  bits(stack.back().toTensor()).masked_fill_(a->bad.view(shape), 0);
}

void index_put(const Operator& op, c10::Stack& stack) {
  if (!lenient_indices()) return op.call_kernel(stack);
  const Tensor self = stack[0].toTensor(), values = stack[2].toTensor();
  const auto given = tensors_of(stack[1]);
  if (!any_out_of(self, given) || values.scalar_type() != self.scalar_type()) return op.call_kernel(stack);
  IndicesOutOfRange found;
  {
    const AsideOfKernel aside;
    auto a = advanced_index(self, given);
    if (a) {
      std::vector<int64_t> shape;
      for (int64_t d = 0; d < self.dim(); ++d) {
        if (d == a->place) shape.insert(shape.end(), a->shape.begin(), a->shape.end());
        if (d >= static_cast<int64_t>(a->indices.size()) || !a->indices[d].defined()) shape.push_back(self.size(d));
      }
      if (at::is_expandable_to(values.sizes(), shape)) {
        const auto keep = a->bad.reshape({-1}).logical_not_().nonzero().squeeze(1);
        std::vector<Tensor> indices;
        for (const auto& t : a->indices)
          indices.push_back(t.defined() ? t.expand(a->shape).reshape({-1}).index_select(0, keep) : t);
        if (values.numel() != 1) {
          auto rows = values.expand(shape);
          const auto dims = static_cast<int64_t>(a->shape.size());
          rows = dims == 0 ? rows.unsqueeze(a->place) : rows.flatten(a->place, a->place + dims - 1);
          stack[2] = rows.index_select(a->place, keep);
        }
        stack[1] = as_list(indices);
        found = a->found;
      }
    }
  }
  op.call_kernel(stack);
  note(op, found);
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
        {"aten::index_put_", &index_put},
        {"aten::_index_put_impl_", &index_put},
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
  auto name = op.name().substr(0, op.name().find('.'));
  return name == "aten::_index_put_impl_" ? "aten::index_put_" : name;
}

}  // namespace openhpu
