// What is known of a call's results without running it, from a call of other sizes.
#include <c10/util/accumulate.h>

#include <numeric>

#include "call/OpCall.h"
#include "record/Lazy.h"

namespace openhpu {
namespace {

using Strides = c10::SmallVector<int64_t, 6>;

// Strides of a dense tensor whose dimensions lie in `order`, the innermost first.
Strides dense_strides(c10::IntArrayRef sizes, c10::ArrayRef<size_t> order) {
  Strides out(sizes.size());
  int64_t stride = 1;
  for (const size_t k : order) {
    out[k] = stride;
    stride *= std::max<int64_t>(sizes[k], 1);
  }
  return out;
}

using Order = c10::SmallVector<size_t, 6>;

Order row_major(size_t dimensions) {
  Order out(dimensions);
  std::iota(out.rbegin(), out.rend(), size_t{0});
  return out;
}

// N, spatial dimensions, C. Empty where there is no such order.
Order channels_last(size_t dimensions) {
  if (dimensions < 4) return {};
  Order out = row_major(dimensions);
  std::rotate(out.begin(), out.end() - 2, out.end() - 1);
  return out;
}

// The order in which the dimensions of any tensor lie.
Order by_stride(c10::IntArrayRef strides) {
  Order out = row_major(strides.size());
  std::ranges::stable_sort(out, {}, [&](size_t k) { return strides[k]; });
  return out;
}

// Strides for `sizes` in the order in which the dimensions of a dense tensor lie; empty where that is not one order.
Strides strides_like(c10::IntArrayRef known_sizes, c10::IntArrayRef known_strides, c10::IntArrayRef sizes) {
  if (known_sizes.size() != sizes.size()) return {};
  Strides found;
  for (const auto& order : {row_major(sizes.size()), channels_last(sizes.size()), by_stride(known_strides)}) {
    if (order.size() != sizes.size() || known_strides != c10::IntArrayRef(dense_strides(known_sizes, order))) continue;
    auto strides = dense_strides(sizes, order);
    if (!found.empty() && found != strides) return {};
    found = std::move(strides);
  }
  return found;
}

// A missing tensor is None or an undefined one; those that are there are operands, no constants.
bool are_same(const c10::IValue& a, const c10::IValue& b) {
  const auto missing = [](const c10::IValue& v) { return v.isNone() || v.isTensor(); };
  return missing(a) || missing(b) ? missing(a) && missing(b) : a == b;
}

// Whether two calls differ in the sizes of their operands only, and these lie alike.
bool are_alike(const CallTemplate& one, const CallTemplate& other) {
  if (one.args.size() != other.args.size() || one.operands.size() != other.operands.size()) return false;
  for (size_t i = 0; i < one.args.size(); ++i) {
    const auto &a = one.args[i], &b = other.args[i];
    if (a.kind != b.kind || a.first != b.first || a.elements != b.elements || a.kinds != b.kinds) return false;
    if (a.kind == CallTemplate::ArgKind::Constant && !are_same(a.constant, b.constant)) return false;
  }
  for (size_t i = 0; i < one.operands.size(); ++i) {
    const auto &a = one.operands[i], &b = other.operands[i];
    if (a.dtype != b.dtype || a.conj || b.conj || a.neg || b.neg || a.on_host || b.on_host) return false;
    if (a.sizes.size() != b.sizes.size() || by_stride(a.strides) != by_stride(b.strides)) return false;
  }
  return true;
}

}  // namespace

std::shared_ptr<const ShapeEntry> OpCall::predict(const ShapeCache::Entries& siblings) {
  auto entry = predict_results(siblings);
  if (entry)  // where a run would say it, too
    for (const auto& s : entry->storages) check_capacity(device_.index(), s.nbytes);
  return entry;
}

std::shared_ptr<const ShapeEntry> OpCall::predict_results(const ShapeCache::Entries& siblings) {
  if (kernel_.prediction_.structured) return predict_by_structure(*siblings.front());
  if (!kernel_.prediction_.sizes) return nullptr;
  auto entry = new_entry();
  describe(*entry);
  for (const auto& sibling : siblings)
    if (are_alike(*sibling->call, *entry->call) && predict_by_sizes(*sibling, *entry)) return entry;
  return nullptr;
}

std::shared_ptr<const ShapeEntry> OpCall::predict_by_structure(const ShapeEntry& sibling) {
  // Where dtypes are mixed the CPU's kernels convert operands first, and the results' strides follow those.
  caffe2::TypeMeta dtype;
  for (const auto& o : operands_) {
    const auto& t = *o.tensor;
    if (t.is_conj() || t.is_neg()) return nullptr;
    if (t.device().type() != c10::kHPU) continue;  // a number
    if (dtype == caffe2::TypeMeta()) dtype = t.dtype();
    if (t.dtype() != dtype) return nullptr;
  }
  c10::InferenceMode no_autograd(true);
  OnHost call;
  try {
    alias_on_host(
        call,
        [](const c10::StorageImpl& storage) {
          return storage_over(c10::DataPtr(nullptr, c10::Device(c10::kMeta)), storage.nbytes());
        },
        c10::DispatchKey::Meta);
    kernel_.prediction_.structured->callBoxed(
        kernel_.handle_, c10::DispatchKeySet(c10::DispatchKey::Meta), &call.stack);
  } catch (const std::exception&) {
    return nullptr;  // the script's error: the call itself will tell
  }
  // Kernels of one operator allocate in one order; where not, an output is copied to its place.
  for (const auto& output : sibling.outputs)
    call.ordinals.push_back(
        output.kind == OutputSpec::Kind::Fresh ? static_cast<int64_t>(sibling.storages[output.index].ordinal) : -1);
  call.widening = sibling.call->widening;
  auto entry = describe_results(call, /*reusable=*/true, nullptr);
  if (!entry) return nullptr;
  for (const auto& output : entry->outputs)
    if (output.kind == OutputSpec::Kind::Fresh && output.dtype != dtype) return nullptr;
  return entry;
}

bool OpCall::predict_by_sizes(const ShapeEntry& sibling, ShapeEntry& entry) const {
  if (!sibling.resizes.empty()) return false;
  const auto sizes = kernel_.prediction_.sizes(args_);
  entry.outputs.clear();
  entry.storages.clear();
  if (sizes.size() != sibling.outputs.size()) return false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto& known = sibling.outputs[i];
    OutputSpec spec;
    spec.kind = known.kind;
    if (known.kind == OutputSpec::Kind::Argument) {
      const auto& operand = *operands_[known.index].tensor;
      // Of parts, a run says whether they may be written to.
      if (operand.sizes() != c10::IntArrayRef(sizes[i]) || !operand.is_non_overlapping_and_dense()) return false;
      spec.index = known.index;
    }
    if (known.kind == OutputSpec::Kind::Fresh) {
      const auto& storage = sibling.storages[known.index];
      const size_t item = known.dtype.itemsize();
      const auto numel = static_cast<size_t>(c10::multiply_integers(sizes[i]));
      const auto before = static_cast<size_t>(c10::multiply_integers(known.sizes));
      if (known.offset != 0 || storage.nbytes != before * item || (numel == 0) != (before == 0)) return false;
      const auto strides = strides_like(known.sizes, known.strides, sizes[i]);
      if (strides.size() != sizes[i].size()) return false;
      spec.index = static_cast<uint32_t>(entry.storages.size());
      spec.dtype = known.dtype;
      spec.sizes.assign(sizes[i].begin(), sizes[i].end());
      spec.strides.assign(strides.begin(), strides.end());
      entry.storages.push_back({numel * item, storage.ordinal});
      entry.call->largest = std::max(entry.call->largest, entry.storages.back().nbytes);
    }
    entry.outputs.push_back(std::move(spec));
  }
  if (entry.storages.size() != sibling.storages.size()) return false;
  entry.returns = sibling.returns;
  entry.call->widening = sibling.call->widening;
  return true;
}

}  // namespace openhpu
