// Checks of a node: every member runs alone, and its accesses are compared with those of the others.
#pragma once

#include <stdint.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "node.h"
#include "tpc/checks.h"

namespace tpc {

constexpr uint32_t kModified = 1u << 31;
constexpr uint32_t kBefore = kModified - 1;  // as a writer: the contents are from before the kernel
constexpr uint32_t kSeveral = kBefore;       // as a reader: more than one member

// The memory of an output and of the tensors that share it. It has who has accessed what: members count from 1, and 0
// is nobody.
struct Memory {
  const char* begin;
  const char* end;
  int unit;  // bytes; elements of all of its tensors begin and end at units
  // Of each unit. kModified is set if all stores read and wrote in one.
  std::vector<uint32_t> writer, reader;
  std::vector<uint8_t> output;  // 1 if an output has it
};
// Where a tensor's elements are in it.
struct Shadow {
  const char* end = nullptr;  // of the tensor's own memory
  int memory = -1;            // -1: an input that shares no memory with an output, or no elements
  int64_t first = 0;          // unit of its first element
  int units = 1;              // of an element
  bool output = false;
  bool cleared = false;  // the glue has it cleared before the kernel runs
};

// Something to report, once for each kind, tensor and line.
struct Finding {
  std::string text;
  bool error;
  int64_t count;  // of elements or accesses
};

// A variable in local memory, and which of its bytes the member has written.
struct LocalShadow {
  uint32_t size;
  int number;  // of the variable, from 0 on
  std::vector<uint32_t> writer;
};

class Checks {
 public:
  // `in_place`: 1 for each output whose contents from before may be read; null: none.
  Checks(const Node& node, const Engine& prototype, const uint8_t* in_place);
  // From here on accesses are this member's.
  void begin(int64_t member, const int* place);
  void at_line(const char* file, int line);
  void loads(int tensor, const int* coordinates, int bytes);
  void stores(int tensor, const int* coordinates, int bytes, bool modifies);
  void address(const void* place, int bytes, bool store);
  void local(const void* part, uint32_t bytes, const void* variable, uint32_t size, const char* name, bool write);
  void wrong_index(int64_t index, int64_t count, const char* name);
  // Elements that nobody wrote, and what the library is said to lack.
  void finish();
  // The findings, a line each: errors come first.
  std::string report(bool errors) const;
  bool failed() const;

 private:
  std::string name_of(int tensor) const;
  std::string member(uint32_t number) const;
  std::string coordinates(int tensor, const int* at) const;
  template <class F>
  void find(const char* kind, int tensor, bool error, int64_t count, F text);
  struct Named;
  bool names(const char* byte, int bytes, int number, Named* named) const;
  void share_memory(int output);
  void mark(int tensor, bool contents);
  template <class F>
  void each_row(int tensor, F visit) const;
  int beyond_pattern(int tensor, const int* at, int count) const;
  void outside_pattern(int tensor, const int* at, int count, bool store);
  void store_row(int tensor, const int* at, int64_t offset, int count, bool modifies);
  void load_row(int tensor, const int* at, int64_t offset, int count);
  void into_input(int tensor, const int* at, size_t first, int count);
  int64_t row(int tensor, const int* at, int bytes, int* begin, int* count, bool store);
  void unwritten(int tensor);

  const Node& node_;
  const Engine& engine_;
  int inputs_, outputs_;
  std::vector<Shadow> shadows_;
  std::vector<Memory> memories_;
  std::vector<Finding> findings_;
  std::map<std::tuple<const char*, int, const char*, int>, size_t> known_;  // kind, tensor, file, line
  std::map<const void*, LocalShadow> local_;
  uint32_t me_ = 0;
  int place_[kMaxDimensions] = {};
  const char* file_ = "";
  int line_ = 0;
};

}  // namespace tpc
