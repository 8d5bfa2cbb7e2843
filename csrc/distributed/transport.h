#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "distributed/Collective.h"

// Translates a request of the script into a request to the communication library, and tensors into the library's form.
namespace openhpu::transport {

using c10d::OpType;
using c10d::ReduceOp;
using Tensors = std::vector<at::Tensor>;

inline bool reducible(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
    case at::kDouble:
    case at::kHalf:
    case at::kBFloat16:
    case at::kChar:
    case at::kByte:
    case at::kInt:
    case at::kLong:
    case at::kBool:
      return true;
    default:
      return false;
  }
}

inline const char* name_of(ReduceOp::RedOpType op) {
  constexpr const char* kNames[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM", "UNUSED"};
  return kNames[op];
}

// The script's request. The device's worker waits for the transport.
template <class Options>
Options asynchronous(Options options) {
  options.asyncOp = true;
  return options;
}

// The request to the transport, and whether sums are divided afterwards.
struct Reduction {
  Reduction(const ReduceOp& op, at::ScalarType type) : asked(op.op_) {
    TORCH_CHECK(
        reducible(type), "Input tensor data type is not supported for HCCL process group: ", type,
        ". Reductions take float32, float64, float16, bfloat16, int8, uint8, int32, int64 and bool: convert it.");
    TORCH_CHECK(
        asked < ReduceOp::PREMUL_SUM, "Unsupported ReduceOp for HCCL process group: ", name_of(asked),
        ". Use SUM, AVG, PRODUCT, MIN, MAX, or BAND, BOR, BXOR on integers.");
    TORCH_CHECK(
        !at::isFloatingType(type) || asked < ReduceOp::BAND, "Cannot use ReduceOp.", name_of(asked),
        " with non-integral dtype ", type, " (hccl)");
    if (type == at::kBool) {
      TORCH_CHECK(asked != ReduceOp::AVG, "Cannot use ReduceOp.AVG with boolean inputs");
      if (asked == ReduceOp::SUM || asked == ReduceOp::BOR) asked = ReduceOp::MAX;
      if (asked == ReduceOp::PRODUCT || asked == ReduceOp::BAND) asked = ReduceOp::MIN;
    }
    divides = asked == ReduceOp::AVG;
    if (divides) asked = ReduceOp::SUM;
  }
  template <class Options>
  Options asking(Options options) const {
    options.reduceOp = asked;
    return asynchronous(std::move(options));
  }
  // What completes an average, of the tensors between two positions.
  std::function<void(Tensors&)> division(size_t begin, size_t end, int ranks) const {
    if (!divides) return nullptr;
    return [=](Tensors& all) {
      for (size_t i = begin; i < end; ++i)
        if (at::isFloatingType(all[i].scalar_type()))
          all[i].div_(ranks);
        else
          all[i].div_(ranks, "trunc");
    };
  }

  ReduceOp::RedOpType asked;
  bool divides = false;
};

inline size_t bytes_of(const Tensors& tensors) {
  size_t sum = 0;
  for (const auto& t : tensors) sum += t.nbytes();
  return sum;
}

// A tensor as the transport sees it. Those that it only moves may have any dtype: it sees bytes.
inline at::Tensor moved(const at::Tensor& alias) {
  if (reducible(alias.scalar_type()) && alias.scalar_type() != at::kBool) return alias;
  return (alias.dim() < 2 ? alias.view({-1, 1}) : alias).view(at::kByte);
}
inline at::Tensor reduced(const at::Tensor& alias) { return alias.scalar_type() == at::kBool ? alias.view(at::kByte) : alias; }

using Prepare = at::Tensor (*)(const at::Tensor& alias);
// Those from one position to another.
inline Tensors some(const Tensors& all, Prepare prepare, size_t begin, size_t end) {
  Tensors out;
  for (size_t i = begin; i < end; ++i) out.push_back(prepare(all[i]));
  return out;
}
inline at::Tensor flat_moved(const at::Tensor& alias) { return moved(alias).view({-1}); }
inline at::Tensor flat_reduced(const at::Tensor& alias) { return reduced(alias).view({-1}); }

inline Tensors flat(const std::vector<Tensors>& lists) {
  Tensors all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

// A tensor for each rank, of one dtype and size, as this rank's own tensor; where they may differ, this rank's is as large
// as its own tensor.
inline void check_parts(
    const char* op, const char* what, const Tensors& parts, int ranks, const at::Tensor& own, int rank_if_they_differ = -1) {
  TORCH_CHECK_VALUE(
      static_cast<int>(parts.size()) == ranks, "hccl ", op, ": expected an ", what, " for each of ", ranks,
      " ranks, got ", parts.size());
  for (int i = 0; i < ranks; ++i) {
    const auto& t = parts[static_cast<size_t>(i)];
    const bool as_large = rank_if_they_differ < 0 || i == rank_if_they_differ;
    TORCH_CHECK_VALUE(
        t.scalar_type() == own.scalar_type() && (!as_large || t.numel() == own.numel()), "hccl ", op, ": ", what, " ", i,
        " must have as many elements as this rank's own tensor, of the same dtype: got ", t.sizes(), " ",
        t.scalar_type(), " and ", own.sizes(), " ", own.scalar_type());
  }
}

// What a profile calls it, as other backends' collectives.
inline const char* title_of(OpType type) {
  switch (type) {
    case OpType::BROADCAST:
      return "hccl:broadcast";
    case OpType::ALLREDUCE:
    case OpType::ALLREDUCE_COALESCED:
      return "hccl:all_reduce";
    case OpType::REDUCE:
      return "hccl:reduce";
    case OpType::ALLGATHER:
    case OpType::ALLGATHER_COALESCED:
      return "hccl:all_gather";
    case OpType::_ALLGATHER_BASE:
      return "hccl:_all_gather_base";
    case OpType::GATHER:
      return "hccl:gather";
    case OpType::SCATTER:
      return "hccl:scatter";
    case OpType::REDUCE_SCATTER:
    case OpType::REDUCE_SCATTER_TENSOR_COALESCED:
      return "hccl:reduce_scatter";
    case OpType::_REDUCE_SCATTER_BASE:
      return "hccl:_reduce_scatter_base";
    case OpType::ALLTOALL:
    case OpType::ALLTOALL_BASE:
      return "hccl:all_to_all";
    case OpType::SEND:
      return "hccl:send";
    case OpType::RECV:
    case OpType::RECVANYSOURCE:
      return "hccl:recv";
    case OpType::BARRIER:
      return "hccl:barrier";
    default:
      return "hccl:collective";
  }
}

inline bool equally_long(const Tensors& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& t) { return t.numel() == tensors[0].numel(); });
}

// What the transport takes only as one tensor: flat tensors behind each other, and how long each is.
struct Packed {
  explicit Packed(const Tensors& parts) {
    for (const auto& t : parts) lengths.push_back(t.numel());
  }
  int64_t length() const { return std::accumulate(lengths.begin(), lengths.end(), int64_t{0}); }
  // Into the first of these.
  void unpack(const Tensors& parts) const {
    int64_t begin = 0;
    for (size_t i = 0; i < lengths.size(); begin += lengths[i++]) parts[i].copy_(data.narrow(0, begin, lengths[i]));
  }
  std::vector<int64_t> lengths;
  at::Tensor data;
};

// To each rank a tensor of its own length, over the transport's exchange of one tensor's parts. `to` and `in` take the
// flat tensors out of all.
inline Collective::Procedure exchange(
    c10::intrusive_ptr<c10d::Backend> transport, std::chrono::milliseconds timeout,
    std::function<Tensors(const Tensors& all)> to, std::function<Tensors(const Tensors& all)> in) {
  auto options = asynchronous(c10d::AllToAllOptions());
  options.timeout = timeout;
  const auto received = std::make_shared<std::optional<Packed>>();
  return {
      [t = std::move(transport), options, to, in = std::move(in), received](Tensors& all) {
        const Tensors parts = in(all), outputs = to(all);
        Packed sent(parts);
        sent.data = at::cat(parts);
        received->emplace(outputs);
        (*received)->data = at::empty({(*received)->length()}, sent.data.options());
        auto to_lengths = (*received)->lengths;  // which the transport takes for itself
        return t->alltoall_base((*received)->data, sent.data, to_lengths, sent.lengths, options);
      },
      [to, received](Tensors& all) { (*received)->unpack(to(all)); }};
}

inline const at::Tensor& only(const char* op, const Tensors& tensors) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "hccl ", op, ": expected one tensor, got ", tensors.size());
  return tensors.front();
}

inline const Tensors& only(const char* op, const std::vector<Tensors>& lists) {
  TORCH_CHECK_VALUE(lists.size() == 1, "hccl ", op, ": expected one list of tensors, got ", lists.size());
  return lists.front();
}

}  // namespace openhpu::transport
