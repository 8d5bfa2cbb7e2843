// The line of the user's script that issues an operator, found in tens of nanoseconds and without Python's lock: the
// calling thread's own frames are walked (they can't change while the thread is inside our call), and a line is
// known by its instruction's address. Each address is resolved once, under the lock, and its code object kept alive,
// so that an address never comes to mean another line.
#include "python/frames.h"

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000
#define OPENHPU_FAST_FRAMES 1
#define Py_BUILD_CORE 1
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#else
#define OPENHPU_FAST_FRAMES 0
#endif

#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/site.h"

namespace openhpu {
namespace {

struct Site {
  std::string file;
  int line;
};

std::mutex mutex;
std::vector<Site>& sites() {
  static auto* all = new std::vector<Site>(1);  // 0: unknown
  return *all;
}

// Folders whose frames are skipped: PyTorch's and this project's packages. The user wrote neither.
std::vector<std::string>& library_folders() {
  static auto* all = new std::vector<std::string>();
  return *all;
}

bool is_library(const std::string& file) {
  for (const auto& folder : library_folders())
    if (file.compare(0, folder.size(), folder) == 0) return true;
  return file.rfind("<frozen", 0) == 0;
}

#if OPENHPU_FAST_FRAMES


// What is known of code objects and instructions, per thread so that reading needs no lock.
struct Known {
  std::unordered_map<const void*, bool> library;      // code object -> skipped?
  std::unordered_map<const void*, uint32_t> address;  // instruction -> site
  const void* last_address = nullptr;
  uint32_t last_site = 0;
};

bool classify(PyCodeObject* code) {
  PyGILState_STATE gil = PyGILState_Ensure();
  Py_INCREF(code);  // kept for ever: its address must not be reused
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  const bool library = !file || is_library(file);
  if (!file) PyErr_Clear();
  PyGILState_Release(gil);
  return library;
}

uint32_t resolve_now(_PyInterpreterFrame* frame) {
  PyGILState_STATE gil = PyGILState_Ensure();
  const char* file = PyUnicode_AsUTF8(frame->f_code->co_filename);
  const int line = PyCode_Addr2Line(frame->f_code, _PyInterpreterFrame_LASTI(frame) * static_cast<int>(sizeof(_Py_CODEUNIT)));
  std::string name = file ? file : "?";
  PyErr_Clear();
  PyGILState_Release(gil);
  std::lock_guard<std::mutex> lock(mutex);
  auto& all = sites();
  for (size_t i = all.size(); i-- > 1 && all.size() < 100000;)
    if (all[i].line == line && all[i].file == name) return static_cast<uint32_t>(i);
  all.push_back({std::move(name), line});
  return static_cast<uint32_t>(all.size() - 1);
}

uint32_t current() {
  PyThreadState* state = PyGILState_GetThisThreadState();
  if (!state || !state->cframe) return 0;
  static thread_local Known known;
  for (auto* frame = state->cframe->current_frame; frame; frame = frame->previous) {
    PyCodeObject* code = frame->f_code;
    if (!code) continue;
    auto it = known.library.find(code);
    if (it == known.library.end()) it = known.library.emplace(code, classify(code)).first;
    if (it->second) continue;
    const void* address = frame->prev_instr;
    if (address == known.last_address) return known.last_site;
    auto found = known.address.find(address);
    if (found == known.address.end()) found = known.address.emplace(address, resolve_now(frame)).first;
    known.last_address = address;
    known.last_site = found->second;
    return found->second;
  }
  return 0;
}

#else

uint32_t current() {
  PyThreadState* state = PyGILState_GetThisThreadState();
  if (!state) return 0;
  PyGILState_STATE gil = PyGILState_Ensure();
  uint32_t out = 0;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    const std::string name = file ? file : "?";
    const bool skip = is_library(name);
    const int line = PyFrame_GetLineNumber(frame);
    Py_DECREF(code);
    PyFrameObject* back = skip ? PyFrame_GetBack(frame) : nullptr;
    Py_DECREF(frame);
    frame = back;
    if (!skip) {
      std::lock_guard<std::mutex> lock(mutex);
      sites().push_back({name, line});
      out = static_cast<uint32_t>(sites().size() - 1);
    }
  }
  PyErr_Clear();
  PyGILState_Release(gil);
  return out;
}

#endif

std::pair<std::string, int> resolve(uint32_t site) {
  std::lock_guard<std::mutex> lock(mutex);
  const auto& s = sites()[site < sites().size() ? site : 0];
  return {s.file, s.line};
}

}  // namespace

void install_site_hooks(std::vector<std::string> folders) {
  library_folders() = std::move(folders);
  set_site_hooks({&current, &resolve});
}

}  // namespace openhpu
