#include "run/Signature.h"

#include <ATen/Context.h>

#include <bit>

namespace openhpu {

void Signature::add_tensor(const c10::TensorImpl& t, uint64_t flags) {
  const auto sizes = t.sizes();
  const auto strides = t.strides();
  add(static_cast<uint64_t>(c10::typeMetaToScalarType(t.dtype())) | static_cast<uint64_t>(sizes.size()) << 8 |
      flags << 16);
  for (auto s : sizes) add(static_cast<uint64_t>(s));
  for (auto s : strides) add(static_cast<uint64_t>(s));
}

void Signature::add_value(const c10::IValue& v, bool by_type) {
  auto tag = [this](char kind) { add(static_cast<uint64_t>(kind)); };
  auto add_list = [&](char kind, const auto& list, auto word_of) {
    tag(kind);
    add(list.size());
    for (size_t i = 0; i < list.size(); ++i) add(word_of(list.get(i)));
  };
  if (v.isNone()) {
    tag('n');
  } else if (v.isInt()) {
    tag('i');
    if (!by_type) add(static_cast<uint64_t>(v.toInt()));
  } else if (v.isBool()) {
    tag('b');
    if (!by_type) add(v.toBool());
  } else if (v.isDouble()) {
    tag('d');
    if (!by_type) add(std::bit_cast<uint64_t>(v.toDouble()));
  } else if (v.isComplexDouble()) {
    tag('c');
    if (!by_type) forbid();
  } else if (v.isIntList()) {
    add_list('I', v.toIntList(), [](int64_t e) { return static_cast<uint64_t>(e); });
  } else if (v.isBoolList()) {
    add_list('B', v.toBoolList(), [](bool e) { return uint64_t{e}; });
  } else if (v.isDoubleList()) {
    // By value: numbers in a list of floats are no numbers of the call's template.
    add_list('D', v.toDoubleList(), [](double e) { return std::bit_cast<uint64_t>(e); });
  } else if (v.isString()) {
    tag('s');
    const auto& s = v.toStringRef();
    add(s.size());
    for (size_t i = 0; i < s.size(); i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, s.data() + i, std::min<size_t>(8, s.size() - i));
      add(word);
    }
  } else if (v.isDevice()) {
    tag('v');
  } else if (v.isList()) {
    tag('L');
    const auto list = v.toListRef();
    add(list.size());
    for (const auto& e : list) add_value(e, by_type);
  } else {
    forbid();
  }
}

void Signature::add_switches() {
  const auto& context = at::globalContext();
  add(static_cast<uint64_t>(context.deterministicAlgorithms()) |
      static_cast<uint64_t>(context.userEnabledMkldnn()) << 1 |
      static_cast<uint64_t>(c10::get_default_dtype_as_scalartype()) << 8);
}

uint64_t Signature::hash() const noexcept {
  WordHash hash;
  hash.add(words_.size());
  for (uint64_t w : words_) hash.add(w);
  return hash.value();
}

}  // namespace openhpu
