#include "call/OpKernel.h"

#include "call/Fallback.h"
#include "call/OpCall.h"
#include "observe/site.h"
#include "record/Capture.h"
#include "record/Lazy.h"
#include "torch/CompileOnly.h"

namespace openhpu {

OpKernel::OpKernel(const c10::OperatorHandle& op)
    : Operator(op, traits_of(c10::toString(op.operator_name()))),
      prediction_(prediction_of(c10::toString(op.operator_name()))) {
  fills_ = traits_.seeded && args_[0].written;
  if (traits_.masks_wait) return;
  if (op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output)) traits_.always_wait = true;
  if (const auto given = op.schema().argumentIndexWithName("output_size")) output_size_ = *given;
}

bool OpKernel::is_native(const OpCall& call) {
  if (traits_.native) return true;
  const uint64_t version = fallback_version();
  if (policy_version_.load(std::memory_order_acquire) != version) {
    native_dtypes_.store(native_dtypes(name_), std::memory_order_relaxed);
    policy_version_.store(version, std::memory_order_release);
  }
  // What a random operator draws decides; its probabilities may have any dtype.
  const uint64_t dtypes = traits_.seeded ? uint64_t{1} << call.self_dtype : call.dtypes;
  return (dtypes & ~native_dtypes_.load(std::memory_order_relaxed)) == 0;
}

namespace {
bool returns_value(const c10::FunctionSchema& schema) {  // of a tensor, as `equal` does
  if (schema.returns().empty()) return false;
  const auto& type = schema.returns()[0].type();
  return type->kind() == c10::TypeKind::BoolType || type->isSubtypeOf(*c10::NumberType::get());
}
}  // namespace

std::shared_ptr<const ShapeEntry> OpKernel::run_and_wait(OpCall& call, bool on_host) {
  if (!on_host) count(Counter::OpsWaited);
  const bool for_values = call.waits_for_sizes();
  const bool reads = for_values && returns_value(schema());
  if (reads) count(Counter::BlockingReads);
  const bool told = (for_values || !on_host) && listening(reads ? kBlockingRead : kWait);
  const uint64_t since = C10_UNLIKELY(told) ? now_ns() : 0;
  auto entry = call.run_and_wait(on_host);
  if (C10_LIKELY(!told)) return entry;
  if (reads)
    emit(
        kBlockingRead, {{"op", name_}, {"bytes", int64_t{1}}, {"wait_ns", static_cast<int64_t>(now_ns() - since)}},
        current_site());
  else
    emit_wait(for_values ? "shape" : "first_sight", name_.c_str(), since, current_site());
  return entry;
}

void OpKernel::call(c10::Stack& stack) {
  OpCall call(*this, stack.data() + stack.size() - args_.size(), &stack, args_.size());
  this->call(call);
}

void OpKernel::call(c10::IValue* args, c10::Stack* results) {
  OpCall call(*this, args, results, 0);
  this->call(call);
}

void OpKernel::call(OpCall& call) {
  if (C10_UNLIKELY(!call.inspect())) {
    call.move_operands_and_call();
    return;
  }
  auto* capture = current_capture(call.device_index());
  if (C10_UNLIKELY(!is_native(call))) {
    if (capture) refuse_in_capture(name_, kFallbackRemedy);
    note_fallback(name_, call.self_dtype);
    run_and_wait(call, /*on_host=*/true);
    return;
  }
  if (call.waits_for_sizes() || !call.signature.cacheable()) {
    if (C10_UNLIKELY(capture != nullptr)) refuse_in_capture(name_, kDataDependentRemedy);
    run_and_wait(call, /*on_host=*/false);
    return;
  }
  const uint64_t hash = call.signature.hash();
  const bool lazy = lazy_mode() || capture;
  auto entry = cache_.find(call.signature, hash);
  if (!entry && fills_) {
    entry = call.describe_fill();
    cache_.insert(call.signature, hash, entry);
  }
  if (C10_UNLIKELY(!entry) && (lazy || prediction_.structured || prediction_.sizes)) {
    const uint64_t family = call.family();
    if (const auto siblings = cache_.siblings(family); !siblings.empty()) {
      if ((entry = call.predict(siblings))) {
        count(Counter::OpsPredicted);
      } else if (lazy && !traits_.collective && (entry = call.rehearse())) {
        count(Counter::OpsRehearsed);
        cache_.add_family(family, entry);
      }
      if (entry) cache_.insert(call.signature, hash, entry);
    }
  }
  if (C10_UNLIKELY(compile_only() != 0) && !traits_.collective) {
    if (!entry && (entry = call.rehearse())) {
      count(Counter::OpsRehearsed);
      cache_.add_family(call.family(), entry);
      cache_.insert(call.signature, hash, entry);
    }
    if (entry) call.note_left_out();
  }
  if (entry) {
    if (lazy && call.record(entry)) return;
    if (C10_UNLIKELY(capture != nullptr)) refuse_in_capture(name_, kUnknownCallRemedy);
    // In lazy mode: a call that no graph can hold (an index on the host) ends the step and is queued behind it.
    count(Counter::OpsSubmitted);
    call.submit(std::move(entry));
    return;
  }
  if (C10_UNLIKELY(capture != nullptr)) call.prepare_to_learn(*capture);
  // A graph that is cut here is cut because this operator is new, and won't be next time.
  const auto learned = c10::make_scope_exit([before = std::exchange(t_learning, true)] { t_learning = before; });
  const uint64_t family = call.family();
  if ((entry = run_and_wait(call, /*on_host=*/false))) {
    cache_.add_family(family, entry);
    cache_.insert(call.signature, hash, entry);
    if (lazy && !capture) Recorder::of(device_of(call.device_index())).note_learned(*entry, current_site());
  }
}

}  // namespace openhpu
