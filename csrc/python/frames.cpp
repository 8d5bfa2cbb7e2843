// Finds the line of the user's script that issues an operator, in tens of nanoseconds and without Python's lock. It
// walks the frames of the calling thread, which cannot change while the thread is inside this call. The address of an
// instruction stands for its line. Each address is resolved once, under the lock. When a code object dies, all known
// addresses are forgotten, so that an address never stands for the line of another object.
#define PY_SSIZE_T_CLEAN
#include "python/bindings.h"
// The layout of frames is known for these versions; all others are asked through public functions, under the lock.
// OPENHPU_PUBLIC_FRAMES chooses those (to try them).
#if PY_VERSION_HEX < 0x030E0000 && !defined(Py_GIL_DISABLED) && !defined(OPENHPU_PUBLIC_FRAMES)
#define OPENHPU_FAST_FRAMES 1
#define Py_BUILD_CORE 1
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#else
#define OPENHPU_FAST_FRAMES 0
#endif

#include <atomic>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "device/shared.h"
#include "observe/site.h"

namespace openhpu {
namespace {

// All lines so far. A line is one entry however often, in however many code objects, and in whichever thread it occurs.
struct Sites {
  std::mutex mutex;
  uint32_t intern(std::string file, int line) {
    std::string key = file + ':' + std::to_string(line);
    std::lock_guard<std::mutex> lock(mutex);
    if (auto it = numbers_.find(key); it != numbers_.end()) return it->second;
    if (all_.size() == kMost) return 0;
    const auto number = static_cast<uint32_t>(all_.size());
    all_.push_back({std::move(file), line});
    numbers_.emplace(std::move(key), number);
    return number;
  }
  std::pair<std::string, int> at(uint32_t site) {
    std::lock_guard<std::mutex> lock(mutex);
    return all_[site < all_.size() ? site : 0];
  }
  size_t size() {
    std::lock_guard<std::mutex> lock(mutex);
    return all_.size();
  }

 private:
  // Code that is made as the program runs can have names of its own, without end: from here on it has no line.
  static constexpr size_t kMost = size_t{1} << 18;
  std::vector<std::pair<std::string, int>> all_{1};  // 0: unknown
  std::unordered_map<std::string, uint32_t> numbers_;
};

Sites& sites() { return device::held_across_forks<Sites>(); }

// Folders and files whose frames are skipped: PyTorch's and this project's packages, and a few modules of the standard
// library. The user wrote none of them.
auto& library_folders = *new std::vector<std::string>();

bool is_library(const std::string& file) {
  for (const auto& folder : library_folders)
    if (file.compare(0, folder.size(), folder) == 0) return true;
  return file.rfind("<frozen", 0) == 0;
}

// The function of torch/autograd/graph.py in which autograd's engine runs.
constexpr std::string_view kRunsBackward = "_engine_run_backward";

// Code objects that were looked at tell when they go, by data that Python keeps with them.
std::atomic<uint64_t> deaths{0};
Py_ssize_t mark_index = -1;
void note_death(void* mark) {
  if (mark) deaths.fetch_add(1, std::memory_order_relaxed);
}

#if PY_VERSION_HEX >= 0x030C0000
const auto request_index = &PyUnstable_Eval_RequestCodeExtraIndex;
const auto get_extra = &PyUnstable_Code_GetExtra;
const auto set_extra = &PyUnstable_Code_SetExtra;
#else
const auto request_index = &_PyEval_RequestCodeExtraIndex;
const auto get_extra = &_PyCode_GetExtra;
const auto set_extra = &_PyCode_SetExtra;
#endif

void watch(PyCodeObject* code) {
  static int mark;
  auto* object = reinterpret_cast<PyObject*>(code);
  void* found = nullptr;
  if (mark_index >= 0 && get_extra(object, mark_index, &found) == 0) {
    if (found || set_extra(object, mark_index, &mark) == 0) return;
  }
  PyErr_Clear();
  Py_INCREF(code);  // where Python has no place left for a mark, the object is kept
}

// What an instruction is to somebody who looks for the script's line, if it is none of the script's. Within a backward
// only frames that belong to it count, hooks and the like: the caller's line issued no operator of its own.
constexpr uint32_t kOfLibrary = UINT32_MAX, kOfBackward = UINT32_MAX - 1;

// What is known of instructions, per thread so that reading needs no lock.
struct Known {
  std::unordered_map<const void*, uint32_t> sites;  // by address; or one of the above
  const void* last_address = nullptr;
  uint32_t last_site = 0;
  uint64_t deaths = 0;
};

// `offset`: of the instruction, in bytes.
uint32_t resolve_now(PyCodeObject* code, int offset) {
  Gil gil;
  watch(code);
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  const char* name = PyUnicode_AsUTF8(code->co_name);
  PyErr_Clear();
  if (file && !is_library(file)) return sites().intern(file, PyCode_Addr2Line(code, offset));
  return name && std::string_view(name) == kRunsBackward ? kOfBackward : kOfLibrary;
}

#if OPENHPU_FAST_FRAMES

// The frames of this thread, innermost first. Nothing is counted or locked: they live while the thread is in our call.
class Frames {
 public:
  explicit Frames(PyThreadState* state)
#if PY_VERSION_HEX < 0x030D0000
      : frame_(state->cframe ? state->cframe->current_frame : nullptr) {
#else
      : frame_(state->current_frame) {
#endif
    skip();
  }
  explicit operator bool() const { return frame_ != nullptr; }
  void next() {
    frame_ = frame_->previous;
    skip();
  }
#if PY_VERSION_HEX < 0x030D0000
  PyCodeObject* code() const { return frame_->f_code; }
  const void* address() const { return frame_->prev_instr; }
#else
  PyCodeObject* code() const { return reinterpret_cast<PyCodeObject*>(frame_->f_executable); }
  const void* address() const { return frame_->instr_ptr; }
#endif
  int offset() const { return _PyInterpreterFrame_LASTI(frame_) * static_cast<int>(sizeof(_Py_CODEUNIT)); }

 private:
  // Past frames that are none of Python code: where C called the interpreter, and, from 3.12 on, one below the frame of
  // an __init__ that a specialised call entered, whose code object is a constant of the interpreter.
  void skip() {
#if PY_VERSION_HEX >= 0x030D0000
    while (frame_ && (!PyCode_Check(frame_->f_executable) || _PyFrame_IsIncomplete(frame_))) frame_ = frame_->previous;
#elif PY_VERSION_HEX >= 0x030C0000
    while (frame_ && _PyFrame_IsIncomplete(frame_)) frame_ = frame_->previous;
#endif
  }
  _PyInterpreterFrame* frame_;
};

#else

// The same through public functions, which want Python's lock.
class Frames {
 public:
  explicit Frames(PyThreadState* state) { set(PyThreadState_GetFrame(state)); }
  ~Frames() { set(nullptr); }
  Frames(const Frames&) = delete;
  Frames& operator=(const Frames&) = delete;
  explicit operator bool() const { return frame_ != nullptr; }
  void next() { set(PyFrame_GetBack(frame_)); }
  PyCodeObject* code() const { return code_; }
  int offset() const { return PyFrame_GetLasti(frame_); }
  // Instructions lie in the code object, so that this is nothing else's.
  const void* address() const { return reinterpret_cast<const char*>(code_) + offset(); }

 private:
  void set(PyFrameObject* frame) {
    Py_XDECREF(code_);
    Py_XDECREF(frame_);
    frame_ = frame;
    code_ = frame ? PyFrame_GetCode(frame) : nullptr;
  }
  Gil gil_;
  PyFrameObject* frame_ = nullptr;
  PyCodeObject* code_ = nullptr;
};

#endif

}  // namespace

uint32_t executing_site() {
  PyThreadState* state = PyGILState_GetThisThreadState();
  if (!state) return 0;
  static thread_local Known known;
  for (Frames frames(state); frames; frames.next()) {
    // A code object in this thread's frames was made after what had its address before was gone.
    if (const uint64_t now = deaths.load(std::memory_order_relaxed); now != known.deaths) [[unlikely]] {
      known = {};
      known.deaths = now;
    }
    const void* address = frames.address();
    if (address == known.last_address) return known.last_site;
    auto found = known.sites.find(address);
    if (found == known.sites.end())
      found = known.sites.emplace(address, resolve_now(frames.code(), frames.offset())).first;
    if (found->second == kOfBackward) return 0;
    if (found->second == kOfLibrary) continue;
    known.last_address = address;
    known.last_site = found->second;
    return found->second;
  }
  return 0;
}

std::pair<std::string, int> place_of_site(uint32_t site) { return sites().at(site); }

void add_library_folder(std::string folder) {
  library_folders.push_back(std::move(folder));
  if (mark_index < 0) mark_index = request_index(&note_death);
}

size_t site_count() { return sites().size(); }

}  // namespace openhpu
