// Finds what a card passes over in silence.
#include "checking.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include <algorithm>
#include <numeric>

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

// Whether no member has accessed any of the units. `written`: all of them have contents from before, too.
__attribute__((optimize("O3"))) bool untouched(
    const uint32_t* writers, const uint32_t* readers, int count, bool written) {
  const uint32_t empty = written ? kBefore : 0;
  uint32_t any = 0;
  for (int i = 0; i < count; i++) any |= (writers[i] != kBefore && writers[i] != empty ? 1u : 0u) | readers[i];
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

Checks::Checks(const Node& node, const Engine& prototype, const uint8_t* in_place)
    : node_(node),
      engine_(prototype),
      inputs_(static_cast<int>(node.inputs.size())),
      outputs_(static_cast<int>(node.outputs.size())),
      shadows_(static_cast<size_t>(prototype.tensors)) {
  for (int t = 0; t < prototype.tensors; t++) {
    const Tensor& tensor = prototype.tensor[t];
    shadows_[static_cast<size_t>(t)].end = tensor.data + extent_of(tensor) * tensor.element_bytes;
  }
  for (int i = 0; i < outputs_; i++) {
    Shadow& shadow = shadows_[static_cast<size_t>(inputs_ + i)];
    shadow.output = true;
    shadow.cleared = node.instance.cleared[static_cast<size_t>(i)];
  }
  for (int t = inputs_; t < inputs_ + outputs_; t++) share_memory(t);
  for (int t = 0; t < inputs_ + outputs_; t++) {
    const bool given = t >= inputs_ && in_place != nullptr && in_place[t - inputs_] != 0;
    mark(t, t < inputs_ || given || shadows_[static_cast<size_t>(t)].cleared);
  }
  counts = Counts{};
}

// Puts an output, and what overlaps with it, into one memory.
void Checks::share_memory(int output) {
  const auto begin_of = [&](int t) { return static_cast<const char*>(engine_.tensor[t].data); };
  const auto end_of = [&](int t) { return shadows_[static_cast<size_t>(t)].end; };
  if (shadows_[static_cast<size_t>(output)].memory >= 0 || begin_of(output) == end_of(output)) return;
  const int number = static_cast<int>(memories_.size());
  Memory memory{begin_of(output), end_of(output), 0, {}, {}, {}};
  std::vector<int> sharing;
  for (size_t before = 1; before != sharing.size();) {
    before = sharing.size();
    for (int t = 0; t < inputs_ + outputs_; t++) {
      Shadow& shadow = shadows_[static_cast<size_t>(t)];
      const bool overlaps = begin_of(t) < memory.end && end_of(t) > memory.begin;
      if (shadow.memory >= 0 || !overlaps) continue;
      shadow.memory = number;
      memory.begin = std::min(memory.begin, begin_of(t));
      memory.end = std::max(memory.end, end_of(t));
      sharing.push_back(t);
    }
  }
  for (const int t : sharing) {
    const int bytes = engine_.tensor[t].element_bytes;
    memory.unit = std::gcd(memory.unit, std::gcd(bytes, static_cast<int>((begin_of(t) - memory.begin) % bytes)));
  }
  for (const int t : sharing) {
    Shadow& shadow = shadows_[static_cast<size_t>(t)];
    shadow.first = (begin_of(t) - memory.begin) / memory.unit;
    shadow.units = engine_.tensor[t].element_bytes / memory.unit;
  }
  const auto units = static_cast<size_t>((memory.end - memory.begin) / memory.unit);
  memory.writer.assign(units, 0);
  memory.reader.assign(units, 0);
  memory.output.assign(units, 0);
  memories_.push_back(std::move(memory));
}

// Calls visit(coordinates, where the row begins in the tensor's memory, in elements).
template <class F>
void Checks::each_row(int tensor, F visit) const {
  const Tensor& there = engine_.tensor[tensor];
  if (extent_of(there) == 0) return;
  int at[kMaxDimensions] = {};
  for (;;) {
    int64_t offset = 0;
    for (int d = 1; d < there.rank; d++) offset += static_cast<int64_t>(at[d]) * there.stride[d];
    visit(at, offset);
    int d = 1;
    while (d < there.rank && static_cast<uint32_t>(++at[d]) == there.size[d]) at[d++] = 0;
    if (d >= there.rank) return;
  }
}

// Notes which units a tensor has, and whether they have contents from before the kernel.
void Checks::mark(int tensor, bool contents) {
  const Shadow& shadow = shadows_[static_cast<size_t>(tensor)];
  if (shadow.memory < 0) return;
  Memory& memory = memories_[static_cast<size_t>(shadow.memory)];
  const auto count = static_cast<int64_t>(engine_.tensor[tensor].size[0]) * shadow.units;
  each_row(tensor, [&](const int*, int64_t offset) {
    const auto first = shadow.first + offset * shadow.units;
    if (contents) std::fill_n(memory.writer.begin() + first, count, kBefore);
    if (shadow.output) std::fill_n(memory.output.begin() + first, count, uint8_t{1});
  });
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
  const Shadow& shadow = shadows_[static_cast<size_t>(tensor)];
  if (shadow.memory < 0) return;
  Memory& memory = memories_[static_cast<size_t>(shadow.memory)];
  const auto first = static_cast<size_t>(shadow.first + offset * shadow.units);
  for (int i = 0; i < count * shadow.units; i++) {
    const size_t unit = first + static_cast<size_t>(i);
    const uint32_t writer = memory.writer[unit] & ~kModified;
    int here[kMaxDimensions] = {at[0] + i / shadow.units, at[1], at[2], at[3], at[4]};
    if (writer == 0)
      find("read of nothing", tensor, true, 1, [&] {
        return member(me_) + " reads " + coordinates(tensor, here) + ", which nobody has written";
      });
    else if (writer != kBefore && writer != me_)
      find("race", tensor, true, 1, [&] {
        return member(me_) + " reads " + coordinates(tensor, here) + ", which " + member(writer) +
               " stores; members run in any order";
      });
    uint32_t& reader = memory.reader[unit];
    reader = reader == 0 || reader == me_ ? me_ : kSeveral;
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
// A store through an input that shares memory with an output may go there alone.
void Checks::into_input(int tensor, const int* at, size_t first, int count) {
  const Shadow& shadow = shadows_[static_cast<size_t>(tensor)];
  if (shadow.output) return;
  bool all = shadow.memory >= 0;
  for (int i = 0; all && i < count * shadow.units; i++)
    all = memories_[static_cast<size_t>(shadow.memory)].output[first + static_cast<size_t>(i)] != 0;
  if (all) return;
  find("store into an input", tensor, true, count, [&] { return member(me_) + " stores " + coordinates(tensor, at); });
}
void Checks::store_row(int tensor, const int* at, int64_t offset, int count, bool modifies) {
  outside_pattern(tensor, at, count, true);
  const Shadow& shadow = shadows_[static_cast<size_t>(tensor)];
  const auto first = static_cast<size_t>(shadow.first + offset * shadow.units);
  into_input(tensor, at, first, count);
  if (shadow.memory < 0) return;
  Memory& memory = memories_[static_cast<size_t>(shadow.memory)];
  const int units = count * shadow.units;
  uint32_t* writers = memory.writer.data() + first;
  const uint32_t* readers = memory.reader.data() + first;
  if (untouched(writers, readers, units, modifies)) {
    std::fill(writers, writers + units, me_ | (modifies ? kModified : 0));
    return;
  }
  for (int i = 0; i < units; i++) {
    const uint32_t writer = writers[i] & ~kModified;
    const bool both_modify = modifies && (writers[i] & kModified) != 0;
    const bool first_store = writer == 0 || writer == kBefore;
    const bool read = readers[i] != 0 && readers[i] != me_;
    const int here[kMaxDimensions] = {at[0] + i / shadow.units, at[1], at[2], at[3], at[4]};
    if (!first_store && writer != me_ && !both_modify)
      find("race", tensor, true, 1, [&] {
        return member(me_) + " stores " + coordinates(tensor, here) + ", which " + member(writer) + " stores too";
      });
    else if (read)
      find("race", tensor, true, 1, [&] {
        const bool several = readers[i] == kSeveral;
        return member(me_) + " stores " + coordinates(tensor, here) + ", which " +
               (several ? "other members read" : member(readers[i]) + " reads") + "; members run in any order";
      });
    else if (modifies && writer == 0)
      find("read of nothing", tensor, true, 1, [&] {
        return member(me_) + " adds to " + coordinates(tensor, here) +
               ", which nobody has written; have the glue clear the output (memsetBeforeExecution)";
      });
    const bool only_modified = both_modify || (modifies && first_store);
    writers[i] = me_ | (only_modified ? kModified : 0);
  }
}

// The first dimension in which an access is outside the pattern of its tensor; -1: none.
int Checks::beyond_pattern(int tensor, const int* at, int count) const {
  if (tensor >= inputs_ + outputs_) return -1;
  const Pattern& pattern = node_.instance.patterns[static_cast<size_t>(tensor)];
  if (!pattern.declared || pattern.all) return -1;
  for (int d = 0; d < engine_.tensor[tensor].rank; d++) {
    if (pattern.dimensions[d].all) continue;
    const Allowed range = allowed(pattern.dimensions[d], place_);
    const int64_t last = d == 0 ? at[0] + count - 1 : at[d];
    if (at[d] < range.first || last > range.last) return d;
  }
  return -1;
}
void Checks::outside_pattern(int tensor, const int* at, int count, bool store) {
  const int d = beyond_pattern(tensor, at, count);
  if (d < 0) return;
  const Allowed range = allowed(node_.instance.patterns[static_cast<size_t>(tensor)].dimensions[d], place_);
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
}

// What an address means for a tensor. False: it is not the tensor's.
struct Checks::Named {
  int tensor;
  int64_t offset;  // in elements
  int at[kMaxDimensions];
  int count;  // of elements
};
bool Checks::names(const char* byte, int bytes, int number, Named* named) const {
  const Tensor& tensor = engine_.tensor[number];
  const char* end = shadows_[static_cast<size_t>(number)].end;
  if (byte < tensor.data || byte >= end) return false;
  const int64_t whole = (byte - tensor.data) / tensor.element_bytes;
  const int64_t most = (end - tensor.data) / tensor.element_bytes - whole;
  const int64_t count = (bytes + tensor.element_bytes - 1) / tensor.element_bytes;
  *named = {number, whole, {}, static_cast<int>(std::min(count, most))};
  int64_t offset = whole;
  for (int d = tensor.rank - 1; d >= 0; d--) {
    const int64_t stride = std::max<int64_t>(tensor.stride[d], 1);
    named->at[d] = tensor.size[d] > 1 ? static_cast<int>(offset / stride) : 0;
    offset -= named->at[d] * stride;
  }
  return true;
}

// An address of gen_addr belongs to a tensor, or to the place that stands for elements outside. Of tensors that share
// the memory it is one whose pattern allows the access, and for a store an output. No memory is allocated here, since a
// signal may end the kernel.
void Checks::address(const void* place, int bytes, bool store) {
  counts.scalars++;
  const char* byte = static_cast<const char*>(place);
  Named best{};
  int least = INT_MAX;
  for (int t = 0; t < engine_.tensors; t++) {
    Named named;
    if (!names(byte, bytes, t, &named)) continue;
    const bool into_input = store && !shadows_[static_cast<size_t>(t)].output;
    const bool beyond = beyond_pattern(t, named.at, named.count) >= 0;
    const int wrong = (into_input ? 2 : 0) + (beyond ? 1 : 0);
    if (wrong >= least) continue;
    best = named;
    least = wrong;
  }
  if (least != INT_MAX) {
    if (store)
      store_row(best.tensor, best.at, best.offset, best.count, false);
    else
      load_row(best.tensor, best.at, best.offset, best.count);
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
  const Shadow& shadow = shadows_[static_cast<size_t>(tensor)];
  if (shadow.cleared || shadow.memory < 0) return;
  const Memory& memory = memories_[static_cast<size_t>(shadow.memory)];
  const bool complete = node_.instance.patterns[static_cast<size_t>(tensor)].complete;
  int64_t missing = 0;
  std::string first;
  each_row(tensor, [&](const int* row, int64_t offset) {
    for (uint32_t x = 0; x < engine_.tensor[tensor].size[0]; x++) {
      const uint32_t writer = memory.writer[static_cast<size_t>(shadow.first + (offset + x) * shadow.units)];
      const bool kept = writer == kBefore && !complete;  // what was there before the kernel
      if (kept || (writer != 0 && writer != kBefore)) continue;
      const int at[kMaxDimensions] = {static_cast<int>(x), row[1], row[2], row[3], row[4]};
      if (missing++ < 4) first += (first.empty() ? "" : ", ") + coordinates(tensor, at);
    }
  });
  if (missing == 0) return;
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
