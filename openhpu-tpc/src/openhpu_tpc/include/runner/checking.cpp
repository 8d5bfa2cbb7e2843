// Finds what a card passes over in silence.
#include "checking.h"

#include <math.h>
#include <string.h>

#include <algorithm>

namespace tpc {

thread_local Counts counts;

namespace {

Checks& checks() { return *static_cast<Checks*>(engine->checks); }

// How many elements a tensor's memory has between its first and its last one.
int64_t extent_of(const Tensor& tensor) {
  int64_t last = 0;
  for (int d = 0; d < tensor.rank; d++) {
    if (tensor.size[d] == 0) return 0;
    last += static_cast<int64_t>(tensor.size[d] - 1) * tensor.stride[d];
  }
  return last + 1;
}

std::string joined(const int* values, int count) {
  std::string text;
  for (int i = 0; i < count; i++) text += (i ? ", " : "") + std::to_string(values[i]);
  return text;
}

// What a member may access of a dimension: [first, last].
struct Allowed {
  int64_t first, last;
};
Allowed allowed(const Range& range, const int* place) {
  const double member = place[range.space];
  return {
      static_cast<int64_t>(floor(range.start_a * member + range.start_b)),
      static_cast<int64_t>(ceil(range.end_a * member + range.end_b))};
}

// Whether nobody has accessed any of the elements.
__attribute__((optimize("O3"))) bool untouched(const uint32_t* writers, const uint32_t* readers, int count) {
  uint32_t any = 0;
  for (int i = 0; i < count; i++) any |= writers[i] | readers[i];
  return any == 0;
}

}  // namespace

void at_line(const char* file, int line) { checks().at_line(file, line); }
void loads(int tensor, const int* coordinates, int bytes) { checks().loads(tensor, coordinates, bytes); }
void stores(int tensor, const int* coordinates, int bytes, bool modifies) {
  checks().stores(tensor, coordinates, bytes, modifies);
}
void loads_address(const void* address, int bytes) { checks().address(address, bytes, false); }
void stores_address(const void* address, int bytes) { checks().address(address, bytes, true); }
void reads_local(const void* part, uint32_t bytes, const void* variable, uint32_t size, const char* name) {
  checks().local(part, bytes, variable, size, name, false);
}
void writes_local(const void* part, uint32_t bytes, const void* variable, uint32_t size, const char* name) {
  checks().local(part, bytes, variable, size, name, true);
}
void wrong_index(int64_t index, int64_t count, const char* name) { checks().wrong_index(index, count, name); }

Checks::Checks(const Node& node, const Engine& prototype)
    : node_(node),
      engine_(prototype),
      inputs_(static_cast<int>(node.inputs.size())),
      outputs_(static_cast<int>(node.outputs.size())),
      shadows_(static_cast<size_t>(prototype.tensors)) {
  for (int i = 0; i < outputs_; i++) {
    Shadow& shadow = shadows_[static_cast<size_t>(inputs_ + i)];
    const auto extent = static_cast<size_t>(extent_of(prototype.tensor[inputs_ + i]));
    shadow.output = true;
    shadow.cleared = node.instance.cleared[static_cast<size_t>(i)];
    shadow.writer.assign(extent, 0);
    shadow.reader.assign(extent, 0);
  }
  counts = Counts{};
}

void Checks::begin(int64_t member, const int* place) {
  me_ = static_cast<uint32_t>(member) + 1;
  memcpy(place_, place, sizeof(place_));
}
void Checks::at_line(const char* file, int line) {
  file_ = file;
  line_ = line;
}

std::string Checks::name_of(int tensor) const {
  if (tensor < inputs_) return "in" + std::to_string(tensor);
  if (tensor < inputs_ + outputs_) return "out" + std::to_string(tensor - inputs_);
  return "table " + std::to_string(tensor - inputs_ - outputs_);
}
std::string Checks::member(uint32_t number) const {
  int place[kMaxDimensions];
  int64_t rest = static_cast<int64_t>(number) - 1;
  const auto& space = node_.instance.space;
  for (size_t d = 0; d < space.size(); d++) {
    place[d] = static_cast<int>(rest % space[d]);
    rest /= space[d];
  }
  return "member (" + joined(place, static_cast<int>(space.size())) + ")";
}
std::string Checks::coordinates(int tensor, const int* at) const {
  return name_of(tensor) + "[" + joined(at, engine_.tensor[tensor].rank) + "]";
}

template <class F>
void Checks::find(const char* kind, int tensor, bool error, int64_t count, F text) {
  const auto [place, fresh] = known_.try_emplace({kind, tensor, file_, line_}, findings_.size());
  if (!fresh) {
    findings_[place->second].count += count;
    return;
  }
  const std::string where = line_ > 0 ? std::string(file_) + ":" + std::to_string(line_) + ": " : "";
  findings_.push_back({where + kind + ": " + text(), error, count});
}

// Where an access begins in the tensor's memory, in elements; -1 if all of it is outside. `begin` and `count` are those
// elements along dimension 0 that are inside.
int64_t Checks::row(int tensor, const int* at, int bytes, int* begin, int* count, bool store) {
  const Tensor& there = engine->tensor[tensor];
  const int width = there.element_bytes;
  const int elements = (bytes + width - 1) / width;
  int64_t offset = 0;
  bool inside = true;
  for (int d = 1; d < there.rank; d++) {
    inside = inside && static_cast<uint32_t>(at[d]) < there.size[d];
    offset += static_cast<int64_t>(at[d]) * there.stride[d];
  }
  const int64_t first = std::max<int64_t>(at[0], 0);
  const int64_t end = std::min<int64_t>(static_cast<int64_t>(at[0]) + elements, there.size[0]);
  if (!inside || end <= first || at[0] < 0 || end < static_cast<int64_t>(at[0]) + elements) {
    const int64_t outside = inside && end > first ? elements - (end - first) : elements;
    find(store ? "store outside" : "load outside", tensor, false, outside, [&] {
      return (store ? "stores " : "loads ") + coordinates(tensor, at) + " with " + std::to_string(outside) +
             " elements outside the tensor, which is allowed; " + member(me_);
    });
  }
  if (!inside || end <= first) return -1;
  *begin = static_cast<int>(first);
  *count = static_cast<int>(end - first);
  return offset + first;
}

void Checks::loads(int tensor, const int* at, int bytes) {
  counts.loads++;
  counts.load_bytes += static_cast<uint64_t>(bytes);
  int first = 0, count = 0;
  const int64_t offset = row(tensor, at, bytes, &first, &count, false);
  if (offset < 0) return;
  int inside[kMaxDimensions] = {first, at[1], at[2], at[3], at[4]};
  load_row(tensor, inside, offset, count);
}
void Checks::load_row(int tensor, const int* at, int64_t offset, int count) {
  outside_pattern(tensor, at, count, false);
  Shadow& shadow = shadows_[static_cast<size_t>(tensor)];
  if (!shadow.output) return;
  for (int i = 0; i < count; i++) {
    const auto element = static_cast<size_t>(offset + i);
    const uint32_t writer = shadow.writer[element] & ~kModified;
    int here[kMaxDimensions] = {at[0] + i, at[1], at[2], at[3], at[4]};
    if (writer == 0 && !shadow.cleared)
      find("read of nothing", tensor, true, 1, [&] {
        return member(me_) + " reads " + coordinates(tensor, here) + ", which nobody has written";
      });
    else if (writer != 0 && writer != me_)
      find("race", tensor, true, 1, [&] {
        return member(me_) + " reads " + coordinates(tensor, here) + ", which " + member(writer) +
               " stores; members run in any order";
      });
    shadow.reader[element] = me_;
  }
}

void Checks::stores(int tensor, const int* at, int bytes, bool modifies) {
  counts.stores++;
  counts.store_bytes += static_cast<uint64_t>(bytes);
  int first = 0, count = 0;
  const int64_t offset = row(tensor, at, bytes, &first, &count, true);
  if (offset < 0) return;
  int inside[kMaxDimensions] = {first, at[1], at[2], at[3], at[4]};
  store_row(tensor, inside, offset, count, modifies);
}
void Checks::store_row(int tensor, const int* at, int64_t offset, int count, bool modifies) {
  outside_pattern(tensor, at, count, true);
  Shadow& shadow = shadows_[static_cast<size_t>(tensor)];
  if (!shadow.output) {
    find(
        "store into an input", tensor, true, count, [&] { return member(me_) + " stores " + coordinates(tensor, at); });
    return;
  }
  const bool adds_to_nothing = modifies && !shadow.cleared;
  uint32_t* writers = shadow.writer.data() + offset;
  const uint32_t* readers = shadow.reader.data() + offset;
  const uint32_t mine = me_ | (modifies ? kModified : 0);
  if (!adds_to_nothing && untouched(writers, readers, count)) {
    std::fill(writers, writers + count, mine);
    return;
  }
  for (int i = 0; i < count; i++) {
    const uint32_t writer = writers[i] & ~kModified;
    const bool both_modify = modifies && (writers[i] & kModified) != 0;
    const bool fresh = writer == 0 || writer == me_ || both_modify;
    const bool read = readers[i] != 0 && readers[i] != me_;
    const int here[kMaxDimensions] = {at[0] + i, at[1], at[2], at[3], at[4]};
    if (!fresh)
      find("race", tensor, true, 1, [&] {
        return member(me_) + " stores " + coordinates(tensor, here) + ", which " + member(writer) + " stores too";
      });
    else if (read)
      find("race", tensor, true, 1, [&] {
        return member(me_) + " stores " + coordinates(tensor, here) + ", which " + member(readers[i]) +
               " reads; members run in any order";
      });
    else if (adds_to_nothing && writer == 0)
      find("read of nothing", tensor, true, 1, [&] {
        return member(me_) + " adds to " + coordinates(tensor, here) +
               ", which nobody has written; have the glue clear the output (memsetBeforeExecution)";
      });
    writers[i] = mine;
  }
}

void Checks::outside_pattern(int tensor, const int* at, int count, bool store) {
  if (tensor >= inputs_ + outputs_) return;
  const Pattern& pattern = node_.instance.patterns[static_cast<size_t>(tensor)];
  if (!pattern.declared || pattern.all) return;
  for (int d = 0; d < engine_.tensor[tensor].rank; d++) {
    if (pattern.dimensions[d].all) continue;
    const Allowed range = allowed(pattern.dimensions[d], place_);
    const int64_t last = d == 0 ? at[0] + count - 1 : at[d];
    if (at[d] >= range.first && last <= range.last) continue;
    int here[kMaxDimensions] = {at[0], at[1], at[2], at[3], at[4]};
    if (d == 0 && at[0] >= range.first) here[0] = static_cast<int>(std::max<int64_t>(range.last + 1, at[0]));
    const std::string declared = "; the pattern gives it " + std::to_string(range.first) + " to " +
                                 std::to_string(range.last) + " of dimension " + std::to_string(d);
    if (store)
      find("store outside the pattern", tensor, true, 1, [&] {
        return member(me_) + " stores " + coordinates(tensor, here) + declared;
      });
    else
      find("load outside the pattern", tensor, false, 1, [&] {
        return member(me_) + " loads " + coordinates(tensor, here) + declared;
      });
    return;
  }
}

// An address of gen_addr belongs to a tensor, or to the place that stands for elements outside.
void Checks::address(const void* place, int bytes, bool store) {
  counts.scalars++;
  const char* byte = static_cast<const char*>(place);
  for (int t = 0; t < engine_.tensors; t++) {
    const Tensor& tensor = engine_.tensor[t];
    const int64_t distance = byte - tensor.data;
    if (tensor.data == nullptr || distance < 0 || distance >= extent_of(tensor) * tensor.element_bytes) continue;
    int64_t offset = distance / tensor.element_bytes;
    const int64_t whole = offset;
    int at[kMaxDimensions] = {};
    for (int d = tensor.rank - 1; d >= 0; d--) {
      const int64_t stride = std::max<int64_t>(tensor.stride[d], 1);
      at[d] = tensor.size[d] > 1 ? static_cast<int>(offset / stride) : 0;
      offset -= at[d] * stride;
    }
    const int count = (bytes + tensor.element_bytes - 1) / tensor.element_bytes;
    const int inside = static_cast<int>(std::min<int64_t>(count, extent_of(tensor) - whole));
    if (store)
      store_row(t, at, whole, inside, false);
    else
      load_row(t, at, whole, inside);
    return;
  }
  const char* outside = reinterpret_cast<const char*>(engine->outside);
  if (byte >= outside && byte < outside + sizeof(engine->outside)) {
    find(store ? "store outside" : "load outside", -1, false, 1, [&] {
      return std::string(store ? "stores" : "loads") +
             " an address of coordinates outside a tensor, which is allowed; " + member(me_);
    });
    return;
  }
  find(store ? "store nowhere" : "load nowhere", -1, true, 1, [&] {
    return member(me_) + " uses an address that belongs to no tensor; it moved beyond the memory that gen_addr named";
  });
}

void Checks::local(
    const void* part, uint32_t bytes, const void* variable, uint32_t size, const char* name, bool write) {
  counts.local++;
  const int64_t distance = static_cast<const char*>(part) - static_cast<const char*>(variable);
  if (distance < 0 || distance >= static_cast<int64_t>(size)) return;  // a pointer's target is not the variable
  LocalShadow& shadow = local_[variable];
  if (shadow.writer.empty()) {
    shadow.size = size;
    shadow.number = static_cast<int>(local_.size());
    shadow.writer.assign(size, 0);
  }
  const auto first = static_cast<size_t>(distance);
  const size_t end = std::min<size_t>(first + bytes, size);
  if (write) {
    std::fill(
        shadow.writer.begin() + static_cast<int64_t>(first), shadow.writer.begin() + static_cast<int64_t>(end), me_);
    return;
  }
  for (size_t i = first; i < end; i++) {
    if (shadow.writer[i] == me_) continue;
    const std::string before =
        shadow.writer[i] == 0 ? "nobody has written" : "only " + member(shadow.writer[i]) + " has written";
    find("local memory", -2 - shadow.number, true, 1, [&] {
      return member(me_) + " reads byte " + std::to_string(i) + " of " + name + ", which " + before;
    });
    return;
  }
}

void Checks::wrong_index(int64_t index, int64_t count, const char* name) {
  find("local memory", -1, true, 1, [&] {
    return member(me_) + " uses the index " + std::to_string(index) + " of " + name + ", which has " +
           std::to_string(count) + " elements";
  });
}

void Checks::unwritten(int tensor) {
  const Tensor& there = engine_.tensor[tensor];
  const Shadow& shadow = shadows_[static_cast<size_t>(tensor)];
  if (shadow.cleared || shadow.writer.empty()) return;
  int at[kMaxDimensions] = {};
  int64_t missing = 0;
  std::string first;
  for (;;) {
    int64_t row = 0;
    for (int d = 1; d < there.rank; d++) row += static_cast<int64_t>(at[d]) * there.stride[d];
    for (uint32_t x = 0; x < there.size[0]; x++) {
      if (shadow.writer[static_cast<size_t>(row + x)] != 0) continue;
      at[0] = static_cast<int>(x);
      if (missing++ < 4) first += (first.empty() ? "" : ", ") + coordinates(tensor, at);
    }
    at[0] = 0;
    int d = 1;
    while (d < there.rank && static_cast<uint32_t>(++at[d]) == there.size[d]) at[d++] = 0;
    if (d >= there.rank) break;
  }
  if (missing == 0) return;
  const bool complete = node_.instance.patterns[static_cast<size_t>(tensor)].complete;
  find("not written", tensor, complete, missing, [&] {
    return "no member has stored " + first + (missing > 4 ? " and others" : "") +
           (complete ? "; the output is declared complete" : "");
  });
}

void Checks::finish() {
  file_ = "";
  line_ = 0;
  for (int t = inputs_; t < inputs_ + outputs_; t++) unwritten(t);
  const KernelEntry& kernel = kernels[node_.instance.kernel];
  if (kernel.local_bytes != nullptr && *kernel.local_bytes > kVectorLocalBytes)
    find("too much local memory", -1, true, 1, [&] {
      return std::to_string(*kernel.local_bytes) + " bytes in " + kernel.local + "; " + built_for + " has " +
             std::to_string(kVectorLocalBytes);
    });
  if (*kernel.lacking != 0) find("not in this generation", -1, true, 1, [&] { return kernel.lacking; });
}

std::string Checks::report(bool errors) const {
  std::string text;
  for (const Finding& finding : findings_) {
    if (finding.error != errors) continue;
    text += finding.text;
    if (finding.count > 1) text += " (" + std::to_string(finding.count) + " in all)";
    text += '\n';
  }
  return text;
}
bool Checks::failed() const {
  return std::any_of(findings_.begin(), findings_.end(), [](const Finding& each) { return each.error; });
}

}  // namespace tpc
