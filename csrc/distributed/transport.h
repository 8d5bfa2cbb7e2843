#pragma once

#include <ATen/ops/cat.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "device/blocking_wait.h"
#include "distributed/Collective.h"
#include "distributed/NodeChannel.h"

// Translates a request of the script into a request to the communication library, and tensors into the library's form.
namespace openhpu::transport {

using c10d::OpType;
using c10d::ReduceOp;
using Tensors = std::vector<at::Tensor>;

inline bool reducible(at::ScalarType type) {
  constexpr at::ScalarType kTypes[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kChar,
                                       at::kByte,  at::kInt,    at::kLong, at::kBool};
  return std::find(std::begin(kTypes), std::end(kTypes), type) != std::end(kTypes);
}

inline const char* name_of(ReduceOp::RedOpType op) {
  constexpr const char* kNames[] = {"SUM",  "AVG", "PRODUCT", "MIN",        "MAX",
                                    "BAND", "BOR", "BXOR",    "PREMUL_SUM", "UNUSED"};
  return kNames[op];
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
  // What completes an average.
  std::function<void(const Tensors& written)> division(int ranks) const {
    if (!divides) return nullptr;
    return [ranks](const Tensors& written) {
      for (const auto& t : written)
        if (at::isFloatingType(t.scalar_type()))
          t.div_(ranks);
        else
          t.div_(ranks, "trunc");
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
inline at::Tensor reduced(const at::Tensor& alias) {
  return alias.scalar_type() == at::kBool ? alias.view(at::kByte) : alias;
}

using Prepare = at::Tensor (*)(const at::Tensor& alias);
inline Tensors all_as(Prepare prepare, const Tensors& aliases) {
  Tensors out;
  for (const auto& alias : aliases) out.push_back(prepare(alias));
  return out;
}
inline at::Tensor flat_moved(const at::Tensor& alias) { return moved(alias).view({-1}); }
inline at::Tensor flat_reduced(const at::Tensor& alias) { return reduced(alias).view({-1}); }

inline Tensors flat(const std::vector<Tensors>& lists) {
  Tensors all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

// A tensor for each rank, of one dtype and size, as this rank's own tensor; where they may differ, this rank's is as
// large as its own tensor.
inline void check_parts(
    const char* op, const char* what, const Tensors& parts, int ranks, const at::Tensor& own,
    int rank_if_they_differ = -1) {
  TORCH_CHECK_VALUE(
      static_cast<int>(parts.size()) == ranks, "hccl ", op, ": expected an ", what, " for each of ", ranks,
      " ranks, got ", parts.size());
  for (int i = 0; i < ranks; ++i) {
    const auto& t = parts[static_cast<size_t>(i)];
    const bool as_large = rank_if_they_differ < 0 || i == rank_if_they_differ;
    TORCH_CHECK_VALUE(
        t.scalar_type() == own.scalar_type() && (!as_large || t.numel() == own.numel()), "hccl ", op, ": ", what, " ",
        i, " must have as many elements as this rank's own tensor, of the same dtype: got ", t.sizes(), " ",
        t.scalar_type(), " and ", own.sizes(), " ", own.scalar_type());
  }
}

inline bool equally_long(const Tensors& tensors) {
  return std::all_of(
      tensors.begin(), tensors.end(), [&](const at::Tensor& t) { return t.numel() == tensors[0].numel(); });
}

// A store whose waits Ctrl-C ends: those of PyTorch's stores hear no signal. Set-up waits for the other ranks in here,
// and a rank that has ended never comes.
class InterruptibleStore final : public c10d::PrefixStore {
 public:
  explicit InterruptibleStore(c10::intrusive_ptr<Store> store) : PrefixStore("hccl", std::move(store)) {}

  c10::intrusive_ptr<Store> clone() override { return c10::make_intrusive<InterruptibleStore>(store_->clone()); }
  std::vector<uint8_t> get(const std::string& key) override {
    wait({key});
    return PrefixStore::get(key);
  }
  std::vector<std::vector<uint8_t>> multiGet(const std::vector<std::string>& keys) override {
    wait(keys);
    return PrefixStore::multiGet(keys);
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, getTimeout()); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    using Clock = std::chrono::steady_clock;
    device::BlockingWait waiting;
    if (!waiting.hears(device::OnInterrupt::Throw)) return PrefixStore::wait(keys, timeout);
    const auto end = Clock::now() + timeout;
    auto pause = std::chrono::milliseconds(1);
    while (!check(keys)) {
      if (timeout.count() > 0 && Clock::now() >= end)
        C10_THROW_ERROR(
            DistStoreError, c10::str(
                                "wait timeout after ", timeout.count(), "ms, keys: ", c10::Join(", ", keys),
                                ". Another rank has not come to the creation of the process group, or has ended."));
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, device::BlockingWait::kAsk);
      waiting.interrupted(device::OnInterrupt::Throw);
    }
  }
};

// How the ranks of a group reach each other.
struct Transport {
  c10::intrusive_ptr<c10d::Backend> gloo;
  std::shared_ptr<NodeChannel> node;  // none where they have no memory in common

  Transport(c10::intrusive_ptr<c10d::Backend> gloo, std::shared_ptr<NodeChannel> node)
      : gloo(std::move(gloo)), node(std::move(node)) {}
  ~Transport() {
    if (node) node->end("the group was destroyed");
  }
  WorkPtr run(
      NodeChannel::Request request, Tensors& written, Tensors& read,
      const std::function<WorkPtr(c10d::Backend& gloo)>& by_gloo) const {
    if (!node || !NodeChannel::takes(request.type)) return by_gloo(*gloo);
    if (request.limit == c10d::kUnsetTimeout) request.limit = gloo->getBackendOptions()->timeout;
    return node->run(request, written, read);
  }
  WorkPtr allreduce(Tensors tensors, ReduceOp::RedOpType op, std::chrono::milliseconds limit) const {
    c10d::AllreduceOptions options;
    options.reduceOp = op;
    options.timeout = limit;
    options.asyncOp = true;
    Tensors none;
    return run({OpType::ALLREDUCE, limit, op}, tensors, none, [&](c10d::Backend& backend) {
      return backend.allreduce(tensors, options);
    });
  }
};
using TransportPtr = std::shared_ptr<const Transport>;

inline int64_t elements(const Tensors& tensors) {
  int64_t sum = 0;
  for (const auto& t : tensors) sum += t.numel();
  return sum;
}

// To each rank a tensor of its own length, over Gloo's exchange of one tensor's parts. What is read is for each rank
// another tensor, or one for all.
inline Collective::Procedure exchange(TransportPtr transport, std::chrono::milliseconds timeout) {
  c10d::AllToAllOptions options;
  options.asyncOp = true;
  options.timeout = timeout;
  const auto received = std::make_shared<at::Tensor>();
  const auto lengths_of = [](const Tensors& parts) {
    std::vector<int64_t> lengths;
    for (const auto& t : parts) lengths.push_back(t.numel());
    return lengths;
  };
  return {
      [t = std::move(transport), options, lengths_of, received](const Tensors& written, const Tensors& read) {
        auto parts = all_as(flat_moved, read);
        const auto outputs = all_as(flat_moved, written);
        parts.resize(outputs.size(), parts.front());
        auto sent = at::cat(parts);
        *received = at::empty({elements(outputs)}, sent.options());
        auto output_lengths = lengths_of(outputs), input_lengths = lengths_of(parts);  // which Gloo takes for itself
        return t->gloo->alltoall_base(*received, sent, output_lengths, input_lengths, options);
      },
      [lengths_of, received](const Tensors& written) {
        const auto outputs = all_as(flat_moved, written);
        const auto parts = received->split_with_sizes(lengths_of(outputs));
        for (size_t i = 0; i < parts.size(); ++i) outputs[i].copy_(parts[i]);
      }};
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
