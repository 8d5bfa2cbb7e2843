// Graph captures and their replays.
#include <ATen/EmptyTensor.h>
#include <ATen/ThreadLocalPythonObjects.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/ops/from_blob.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/utils/pybind.h>

#include <c10/core/InferenceMode.h>

#include <numeric>
#include <set>

#include "call/Alias.h"
#include "python/bindings.h"
#include "record/Capture.h"
#include "record/Lazy.h"
#include "run/Operator.h"
#include "torch/HPUDevice.h"

namespace openhpu {
namespace {

constexpr uint32_t kNoSlot = ~uint32_t{0};

// A tensor that a graph reads or leaves, as it was at the capture.
struct Place {
  uint32_t slot = kNoSlot;
  at::Tensor tensor;  // keeps the storage; undefined where the memory is not the graph's
  at::Tensor like;    // its dtype, sizes and strides, without memory
  int64_t offset = 0;
  size_t storage_bytes = 0;
  bool written = false;  // by the graph

  bool fills_storage() const { return offset == 0 && like.is_contiguous() && like.nbytes() == storage_bytes; }
};

struct Replays {
  std::atomic<uint64_t> count{0};
};

class GraphHandle {
 public:
  ~GraphHandle() {
    try {
      reset();
    } catch (...) {  // what was recorded could not be flushed; the next flush says so
    }
  }

  void capture_begin(bool dry_run, bool undone) {
    TORCH_CHECK(!capture_, "capture_begin: this HPUGraph is capturing already; end that with capture_end() first.");
    TORCH_CHECK(
        !graph_,
        "capture_begin: this HPUGraph holds a captured graph. Call reset() first, or capture with another "
        "HPUGraph.");
    begun_ = true;
    at::autocast::clear_cache();  // the graph casts weights itself, and what it casts is its own
    auto token = py::module_::import("builtins").attr("object")();
    capture_ = std::make_unique<Capture>(current_device(), token.ptr(), dry_run, undone);
    at::impl::ThreadLocalPythonObjects::set(
        kCaptureToken, std::make_shared<c10::SafePyObject>(token.release().ptr(), getPyInterpreter()));
  }

  void capture_end() {
    TORCH_CHECK(capture_, "capture_end: no capture has begun with this HPUGraph; call capture_begin() first.");
    if (capture_->active()) check_same_place();
    erase_token();
    // Taken here: what follows may throw, and then the capture is over.
    auto capture = std::move(capture_);
    auto marked = std::move(user_inputs_);
    user_inputs_.clear();
    auto graph = capture->finish();
    TORCH_CHECK(graph, "capture_end: the capture failed and nothing can be replayed: ", capture->failure());
    for (const auto& t : marked) inputs_.push_back(place_of(t, *graph));
    std::vector<uint32_t> weights;
    for (uint32_t slot : graph->program().weights) {
      const bool given = std::any_of(inputs_.begin(), inputs_.end(), [&](const auto& p) { return p.slot == slot; });
      if (!given && !graph->program().written[slot]) weights.push_back(slot);
    }
    graph->fix(std::move(weights));
    graph_ = std::move(graph);
  }

  // Ends a capture without a result; `why` is what capture_end would say.
  void abandon(const std::string& why) {
    erase_token();
    if (capture_) capture_->abandon(why);
    capture_.reset();
    user_inputs_.clear();
  }

  void reset() {
    abandon("the graph was reset");
    graph_.reset();
    inputs_.clear();
    outputs_.clear();
    outputs_marked_ = inputs_cleared_ = transient_ = begun_ = warned_ = false;
  }

  bool is_capturing() const { return capture_ && capture_->active(); }
  // What the capture under way met that it can't hold, as the error said it; empty: nothing.
  std::string refusal() const { return capture_ ? capture_->failure() : std::string(); }
  bool captured() const { return graph_ != nullptr; }

  CapturedGraph& graph(const char* what) const {
    TORCH_CHECK(
        graph_, what,
        ": nothing has been captured with this HPUGraph. Capture first: capture_begin() ... capture_end(), "
        "or `with torch.hpu.graph(g):`.");
    return *graph_;
  }

  void compile(bool alone) { graph("compile").compile(alone); }

  void replay() {
    // Of a graph in which no capture has begun: nothing, as on a Gaudi, where programs replay before they capture.
    if (!begun_) {
      if (!std::exchange(warned_, true))
        TORCH_WARN(
            "HPUGraph.replay did nothing: no capture has begun with this graph. Capture first: capture_begin() ... "
            "capture_end(), or `with torch.hpu.graph(g):`.");
      return;
    }
    auto& g = to_replay("replay");
    TORCH_CHECK(
        !inputs_cleared_, "replay: this graph's inputs were released by clear_inputs(); give others with replayV3().");
    TORCH_CHECK(!transient_, "replay: this graph's outputs have no memory of their own (transient); use run().");
    launch(g, {});
  }

  void mark_user_inputs(const std::vector<at::Tensor>& tensors) {
    TORCH_CHECK(
        is_capturing(),
        "mark_user_inputs: call it between capture_begin() and capture_end(), where the graph learns "
        "which of its inputs they are.");
    for (const auto& t : tensors) {
      check_tensor("mark_user_inputs", t);
      TORCH_CHECK(
          !t.is_conj() && !t.is_neg(),
          "mark_user_inputs: expected tensors without a conjugate or negative bit, since "
          "others take their place. Give t.resolve_conj().resolve_neg().");
    }
    user_inputs_ = tensors;
  }

  void mark_weights(const std::vector<at::Tensor>& tensors) {
    TORCH_CHECK(is_capturing(), "mark_weights: call it between capture_begin() and capture_end().");
    Recorder::Lock lock(Recorder::of(capture_->device()));
    for (const auto& t : tensors) {
      check_tensor("mark_weights", t);
      if (auto* memory = memory_of(*t.storage().unsafeGetStorageImpl())) capture_->note_weight(*memory);
    }
  }

  void mark_user_outputs(const std::vector<at::Tensor>& tensors, bool transient) {
    auto& g = graph("mark_user_outputs");
    TORCH_CHECK(
        !outputs_marked_,
        "mark_user_outputs: the outputs of this graph have been marked; call it once after each capture.");
    std::vector<uint32_t> kept, given_up;
    for (const auto& t : tensors) {
      check_tensor("mark_user_outputs", t);
      outputs_.push_back(place_of(t, g));
      if (outputs_.back().slot != kNoSlot) kept.push_back(outputs_.back().slot);
    }
    outputs_marked_ = true;
    g.release(g.unused_results(kept), /*scratch=*/true);
    if (!transient) return;
    for (auto& p : outputs_) {
      if (p.slot == kNoSlot || !g.program().slots[p.slot].fresh) continue;
      p.tensor.reset();
      given_up.push_back(p.slot);
    }
    g.release(given_up, /*scratch=*/false);
    transient_ = true;
  }

  std::vector<size_t> matches() const {
    std::vector<size_t> out;
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i].slot != kNoSlot) out.push_back(i);
    return out;
  }

  void clear_inputs() {
    auto& g = graph("clear_inputs");
    std::vector<uint32_t> slots;
    for (auto& p : inputs_) {
      if (p.slot == kNoSlot || !p.fills_storage()) continue;
      p.tensor.reset();
      slots.push_back(p.slot);
      inputs_cleared_ = true;
    }
    g.release(slots, /*scratch=*/false);
  }

  // `tensors` take the place of the marked inputs, in their order.
  void replay_v3(const std::vector<at::Tensor>& tensors) {
    auto& g = to_replay("replayV3");
    TORCH_CHECK(!transient_, "replayV3: this graph's outputs have no memory of their own; use run().");
    launch_with(g, Given("replayV3", inputs_, tensors));
  }

  // `tensors` take the place of `captured`, tensors that the graph read at the capture.
  void replay_v2(const std::vector<at::Tensor>& captured, const std::vector<at::Tensor>& tensors) {
    auto& g = to_replay("replayV2");
    std::vector<Place> places;
    for (const auto& t : captured) {
      check_tensor("replayV2", t);
      places.push_back(place_of(t, g));
    }
    launch_with(g, Given("replayV2", places, tensors));
  }

  // The same as replay_v3; returns the marked outputs. Those that lie in an input lie in what was given for it; those
  // of a graph whose outputs are transient are new tensors.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& tensors) {
    auto& g = to_replay("run");
    TORCH_CHECK(outputs_marked_, "run: mark the outputs first, with mark_user_outputs().");
    Given given("run", inputs_, tensors);
    std::vector<at::Tensor> out;
    std::unordered_map<uint32_t, c10::Storage> storages;
    for (const auto& p : outputs_) out.push_back(output(g, p, given, storages));
    g.replay(given.substitutes);
    given.copy_back();
    return out;
  }

  // The marked outputs that have memory of their own.
  std::vector<at::Tensor> outputs() const {
    std::vector<at::Tensor> out;
    for (const auto& p : outputs_)
      if (p.tensor.defined()) out.push_back(p.tensor);
    return out;
  }

  // The next replays run beside a run node by node; `unequal` has what differed in the last one.
  void check_replays() { checked_ = true; }

  // What is captured from here on, until the end, is no part of the function.
  void mark_end() {
    TORCH_CHECK(is_capturing(), "mark_end: call it between capture_begin() and capture_end().");
    flush(capture_->device());
    Recorder::Lock lock(Recorder::of(capture_->device()));
    end_ = capture_->nodes();
  }

  // None: there was no memory for the copies.
  py::object unequal() {
    if (!unequal_) return py::none();
    py::list out;
    for (auto& u : std::exchange(unequal_, std::vector<CapturedGraph::Unequal>()).value())
      out.append(py::make_tuple(u.op, site_of(u.site), u.replayed, u.plain));
    return out;
  }

  // How another capture of the same function, which has the results `others`, differs from this one, which has
  // `results`. `forwards`: of captures of a backward, the two of its forward.
  py::object difference(
      const GraphHandle& other, const std::vector<at::Tensor>& results, const std::vector<at::Tensor>& others,
      const std::optional<std::pair<const GraphHandle*, const GraphHandle*>>& forwards) const {
    CapturedGraph::Pairs pairs;
    CapturedGraph::Comparison comparison{
        .nodes = other.end_, .inputs = pairs, .given = {}, .results = {}, .forward = {}};
    if (forwards) {
      const auto& [was, is] = *forwards;
      CapturedGraph::Pairs forward;
      const auto r = was->graph("difference").difference(is->graph("difference"), was->comparison(*is, forward));
      if (r) return described(*r);
      comparison.forward.push_back({was->graph_.get(), is->graph_.get(), std::move(forward)});
    }
    const auto &mine = graph("difference"), &its = other.graph("difference");
    auto inputs = this->comparison(other, pairs);
    comparison.given = std::move(inputs.given);
    for (size_t i = 0; i < std::min(results.size(), others.size()); ++i) {
      const Place p = outputs_marked_ && i < outputs_.size() ? outputs_[i] : place_of(results[i], mine);
      const Place q = place_of(others[i], its);
      if (p.slot == kNoSlot || q.slot == kNoSlot) continue;
      const bool same_view = p.offset == q.offset && p.like.strides() == q.like.strides() &&
                             p.like.is_conj() == q.like.is_conj() && p.like.is_neg() == q.like.is_neg();
      comparison.results.push_back({i, p.slot, q.slot, same_view});
    }
    const auto r = mine.difference(its, comparison);
    return r ? py::object(described(*r)) : py::none();
  }

  // For each tensor: the coarsest dtype to which the graph rounds a value on the way to it, or None.
  py::list coarsest(const std::vector<at::Tensor>& tensors) const {
    const auto& g = graph("coarsest");
    py::list out;
    for (const auto& t : tensors) {
      const auto p = place_of(t, g);
      out.append(p.slot == kNoSlot ? py::none() : dtype_or_none(g.coarsest({p.slot}).front()));
    }
    return out;
  }

  // What writes a result of the graph, or a tensor that it changes, last: number, operator, line. -1: nothing does.
  py::tuple writer_of(const at::Tensor& t) const {
    const auto& g = graph("writer_of");
    const auto p = place_of(t, g);
    const auto* node = p.slot == kNoSlot ? nullptr : g.writer_of(p.slot);
    if (!node) return py::make_tuple(-1, "", py::none());
    return py::make_tuple(
        node - g.program().graph.nodes.data(), node->entry->call->kernel->name(), site_of(node->site));
  }

  // How often it was replayed; lives on when the graph is gone.
  std::shared_ptr<Replays> replays() const { return replays_; }

  py::dict describe() const {
    const auto& program = graph("describe").program();
    size_t inputs = 0, results = 0, held = 0;
    for (size_t i = 0; i < program.slots.size(); ++i) {
      // Memory that dies with the graph: not that of weights and of the script's other tensors.
      const bool marked = std::any_of(inputs_.begin(), inputs_.end(), [&](const auto& p) { return p.slot == i; });
      const bool fresh = program.slots[i].fresh;
      if (program.held[i] && (marked || fresh)) held += program.slots[i].nbytes;
      inputs += !fresh;
      results += fresh && program.slots[i].assigned;
    }
    std::vector<uint32_t> slots(program.slots.size());
    std::iota(slots.begin(), slots.end(), 0);
    const auto coarsest = graph_->coarsest(slots);
    const std::set<at::ScalarType> dtypes(coarsest.begin(), coarsest.end());
    return py::dict(
        "operators"_a = program.graph.nodes.size(), "slots"_a = program.slots.size(), "inputs"_a = inputs,
        "results"_a = results, "draws"_a = graph_->draws(), "recipe"_a = graph_->has_recipe(),
        "constants"_a = graph_->constants(), "bytes"_a = held, "collectives"_a = program.collectives,
        "dtypes"_a = std::vector<at::ScalarType>(dtypes.begin(), dtypes.end()));
  }

 private:
  static void check_tensor(const char* what, const at::Tensor& t) {
    TORCH_CHECK_TYPE(
        t.defined() && t.device().type() == c10::kHPU, what, ": expected tensors on hpu, got one on ",
        t.defined() ? t.device().str() : "no device", ". Move it to the device first.");
  }

  static py::object dtype_or_none(at::ScalarType dtype) {
    return dtype == at::kByte ? py::none() : py::object(py::cast(dtype));
  }

  static py::dict described(const Recompilation& r) {
    return py::dict(
        "cause"_a = r.cause, "op"_a = r.op, "argument"_a = r.argument, "before"_a = r.before, "after"_a = r.after,
        "site"_a = site_of(r.site));
  }

  // With the inputs of both captures, as far as they are known.
  CapturedGraph::Comparison comparison(const GraphHandle& other, CapturedGraph::Pairs& pairs) const {
    CapturedGraph::Comparison out{.nodes = other.end_, .inputs = pairs, .given = {}, .results = {}, .forward = {}};
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const bool known = other.inputs_.size() == inputs_.size() && other.inputs_[i].slot != kNoSlot;
      if (inputs_[i].slot == kNoSlot) continue;
      if (known)
        pairs.add(inputs_[i].slot, other.inputs_[i].slot);
      else
        out.given.push_back(inputs_[i].slot);
    }
    return out;
  }

  void launch(CapturedGraph& g, const std::vector<CapturedGraph::Substitute>& substitutes) {
    if (C10_UNLIKELY(checked_)) {
      try {
        unequal_ = g.replay_beside(substitutes);
        return;
      } catch (const c10::OutOfMemoryError&) {
        unequal_.reset();
      }
    }
    g.replay(substitutes);
  }

  void check_same_place() const {
    const auto now = current_stream(capture_->stream().device_index());
    if (std::this_thread::get_id() != capture_->thread() || now != capture_->stream()) {
      const std::string message =
          std::this_thread::get_id() != capture_->thread()
              ? "capture_end: the capture began on another thread. End it on the thread that began it."
              : "capture_end: the capture began on stream " + std::to_string(capture_->stream().id()) +
                    ", but the current stream is " + std::to_string(now.id()) +
                    ". End it on the stream on which it began.";
      capture_->abandon(message);
      TORCH_CHECK(false, message);
    }
  }

  CapturedGraph& to_replay(const char* what) {
    auto& g = graph(what);
    if (C10_UNLIKELY(current_capture(g.device()) != nullptr))
      refuse_in_capture("HPUGraph.replay", "Graphs do not nest: replay it before the capture or after it.");
    ++replays_->count;
    return g;
  }

  void erase_token() {
    if (capture_ && std::this_thread::get_id() == capture_->thread())
      at::impl::ThreadLocalPythonObjects::erase(kCaptureToken);
    if (capture_) at::autocast::clear_cache();
  }

  static Place place_of(const at::Tensor& t, const CapturedGraph& g) {
    Place p;
    const auto& storage = *t.storage().unsafeGetStorageImpl();
    // The graph holds its memory, so that an address tells whose it is.
    const auto& slots = g.program().slots;
    const auto* memory = memory_of(storage);
    for (uint32_t i = 0; memory && memory->data && i < slots.size(); ++i)
      if (slots[i].data == memory->data) p.slot = i;
    p.written = p.slot != kNoSlot && g.program().written[p.slot];
    p.tensor = t.detach();
    p.like = at::Tensor(at::detail::empty_strided_meta(t.sizes(), t.strides(), t.scalar_type()));
    p.like._set_conj(t.is_conj());
    p.like._set_neg(t.is_neg());
    p.offset = t.storage_offset();
    p.storage_bytes = storage.nbytes();
    return p;
  }

  // Tensors that take the place of captured inputs for one replay. Their memory does where it is laid out as the
  // input's is; elsewhere the contents are copied, and copied back if the graph changes them.
  struct Given {
    Given(const char* what, const std::vector<Place>& places, const std::vector<at::Tensor>& given) : tensors(given) {
      TORCH_CHECK(
          given.size() == places.size(), what, ": expected ", places.size(), " tensors, one for each input that was ",
          "marked at the capture, got ", given.size(), ".");
      for (size_t i = 0; i < places.size(); ++i) check(what, places[i], given[i], i);
      c10::InferenceMode no_autograd(true);
      for (size_t i = 0; i < places.size(); ++i)
        if (places[i].slot != kNoSlot) place(places[i], given[i]);
    }

    void copy_back() const {
      c10::InferenceMode no_autograd(true);
      for (const auto& [to, from] : changed) to.detach().copy_(from);
    }

    const std::vector<at::Tensor>& tensors;
    std::vector<CapturedGraph::Substitute> substitutes;
    std::vector<std::pair<at::Tensor, at::Tensor>> changed;  // given, what stands for it
    std::vector<at::Tensor> stand_ins;                       // with memory of their own

   private:
    static void check(const char* what, const Place& p, const at::Tensor& t, size_t i) {
      check_tensor(what, t);
      TORCH_CHECK(
          t.sizes() == p.like.sizes() && t.dtype() == p.like.dtype(), what, ": input ", i, " was captured with shape ",
          p.like.sizes(), " and dtype ", p.like.dtype(), " and is now given with shape ", t.sizes(), " and dtype ",
          t.dtype(), ". A graph is replayed with the shapes and dtypes of its capture; capture another one.");
    }

    bool substitute(const Place& p, const at::Tensor& t) {
      if (!p.fills_storage() || t.strides() != p.like.strides() || t.is_conj() || t.is_neg()) return false;
      auto& storage = *t.storage().unsafeGetStorageImpl();
      require_memory(storage);
      auto* first =
          static_cast<char*>(storage.mutable_data()) + t.storage_offset() * static_cast<int64_t>(t.itemsize());
      if (reinterpret_cast<uintptr_t>(first) % 64 != 0) return false;
      substitutes.push_back({p.slot, first});
      return true;
    }

    void place(const Place& p, const at::Tensor& t) {
      if (substitute(p, t)) return;
      at::Tensor stand_in = p.tensor;
      if (stand_in.defined()) {
        stand_in.copy_(t);
      } else {
        // The graph keeps no memory for it. Until the replay is queued nothing else may get this memory: neither
        // another stand-in nor a result.
        stand_in = t.clone(at::MemoryFormat::Contiguous);
        TORCH_INTERNAL_ASSERT(substitute(p, stand_in));
        stand_ins.push_back(stand_in);
      }
      if (p.written) changed.emplace_back(t, stand_in);
    }
  };

  void launch_with(CapturedGraph& g, const Given& given) {
    launch(g, given.substitutes);
    given.copy_back();
  }

  static bool in_storage(const void* data, const c10::Storage& storage) {
    const auto* first = static_cast<const char*>(storage.data());
    return data >= first && data < first + storage.nbytes();
  }

  static at::Tensor tensor_on(const c10::Storage& storage, const Place& p, int64_t offset) {
    auto t = make_hpu_tensor(storage, p.like.dtype(), p.like.sizes(), p.like.strides(), p.offset + offset);
    t._set_conj(p.like.is_conj());
    t._set_neg(p.like.is_neg());
    return t;
  }

  // Where a marked output is after a replay with `given`, to which new memory is added.
  at::Tensor output(
      CapturedGraph& g, const Place& p, Given& given, std::unordered_map<uint32_t, c10::Storage>& storages) const {
    if (p.slot == kNoSlot) return p.tensor;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].slot != p.slot) continue;
      const auto& t = given.tensors[i];
      for (const auto& s : given.substitutes) {
        if (s.slot != p.slot) continue;
        if (in_storage(s.data, t.storage())) return tensor_on(t.storage(), p, t.storage_offset());
        for (const auto& own : given.stand_ins)
          if (in_storage(s.data, own.storage())) return tensor_on(own.storage(), p, 0);
      }
    }
    if (p.tensor.defined()) return p.tensor;
    auto& storage = storages[p.slot];
    if (!storage.unsafeGetStorageImpl()) {
      storage = storage_over(allocate_on(g.index(), p.storage_bytes), p.storage_bytes);
      given.substitutes.push_back({p.slot, storage.mutable_data()});
    }
    return tensor_on(storage, p, 0);
  }

  std::unique_ptr<Capture> capture_;
  std::unique_ptr<CapturedGraph> graph_;
  std::vector<at::Tensor> user_inputs_;
  std::vector<Place> inputs_, outputs_;
  bool outputs_marked_ = false, inputs_cleared_ = false, transient_ = false;
  bool begun_ = false;   // a capture, whether it has ended or failed
  bool warned_ = false;  // of a replay before it
  bool checked_ = false;
  size_t end_ = SIZE_MAX;  // operators that belong to the function
  std::optional<std::vector<CapturedGraph::Unequal>> unequal_;
  const std::shared_ptr<Replays> replays_ = std::make_shared<Replays>();
};

// Which of the tensors differ in bits from their partners, of the same sizes and dtypes, and both, on the host. Waits
// for the device.
std::vector<std::tuple<size_t, at::Tensor, at::Tensor>> unequal_tensors(
    const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  std::vector<std::tuple<size_t, at::Tensor, at::Tensor>> out;
  if (a.empty()) return out;
  for (const auto* list : {&a, &b})
    for (const auto& t : *list) require_memory_to_read(*t.storage().unsafeGetStorageImpl());
  auto& device = device_of(a.front().device().index());
  flush(device);
  device.queue().drain();
  device::MemoryPool::AccessScope access(device.memory());
  c10::InferenceMode no_autograd(true);
  for (size_t i = 0; i < a.size(); ++i) {
    const auto on_host = [](const at::Tensor& t) {
      return at::from_blob(const_cast<void*>(t.const_data_ptr()), t.sizes(), t.strides(), at::dtype(t.scalar_type()))
          .clone(at::MemoryFormat::Contiguous);
    };
    const auto x = on_host(a[i]), y = on_host(b[i]);
    if (std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) != 0) out.emplace_back(i, x, y);
  }
  return out;
}

}  // namespace

void bind_capture(py::module& m) {
  // Wrapped as PyTorch wraps its own functions, so that errors and kernels' warnings come out as they do there.
  const auto wrap = [](auto&& f) { return torch::wrap_pybind_function(std::forward<decltype(f)>(f)); };
  py::class_<Replays, std::shared_ptr<Replays>>(m, "Replays").def_property_readonly("count", [](const Replays& r) {
    return r.count.load();
  });
  py::class_<GraphHandle>(m, "CapturedGraph")
      .def(py::init<>())
      .def("capture_begin", wrap(&GraphHandle::capture_begin), py::arg("dry_run") = false, py::arg("undone") = false)
      .def("capture_end", wrap(&GraphHandle::capture_end))
      .def("abandon", wrap(&GraphHandle::abandon))
      .def("reset", wrap(&GraphHandle::reset))
      .def("compile", wrap(&GraphHandle::compile), py::arg("alone") = false)
      .def("replay", wrap([](GraphHandle& g, bool) { g.replay(); }), py::arg("asynchronous") = false)
      .def(
          "replayV2",
          wrap([](GraphHandle& g, const std::vector<at::Tensor>& captured, const std::vector<at::Tensor>& tensors,
                  bool) { g.replay_v2(captured, tensors); }),
          py::arg("static_tlist"), py::arg("tlist"), py::arg("asynchronous") = false)
      .def(
          "replayV3", wrap([](GraphHandle& g, const std::vector<at::Tensor>& tensors, bool) { g.replay_v3(tensors); }),
          py::arg("tlist"), py::arg("asynchronous") = false)
      .def("run", wrap(&GraphHandle::run), py::arg("tlist"))
      .def("outputs", &GraphHandle::outputs)
      .def("mark_user_inputs", wrap(&GraphHandle::mark_user_inputs))
      .def("mark_weights", wrap(&GraphHandle::mark_weights))
      .def("mark_user_outputs", wrap(&GraphHandle::mark_user_outputs), py::arg("tensors"), py::arg("transient") = false)
      .def("get_user_input_match_indices", &GraphHandle::matches)
      .def("clear_inputs", wrap(&GraphHandle::clear_inputs))
      .def("is_capturing", &GraphHandle::is_capturing)
      .def("refusal", &GraphHandle::refusal)
      .def("captured", &GraphHandle::captured)
      .def("replays", &GraphHandle::replays)
      .def("check_replays", &GraphHandle::check_replays)
      .def("unequal", &GraphHandle::unequal)
      .def("mark_end", wrap(&GraphHandle::mark_end))
      .def(
          "difference", wrap(&GraphHandle::difference), py::arg("other"),
          py::arg("results") = std::vector<at::Tensor>(), py::arg("others") = std::vector<at::Tensor>(),
          py::arg("forwards") = py::none())
      .def("coarsest", wrap(&GraphHandle::coarsest))
      .def("writer_of", wrap([](const GraphHandle& g, const at::Tensor& t) { return g.writer_of(t); }))
      .def("describe", &GraphHandle::describe);
  m.def("unequal", wrap(&unequal_tensors));
  m.def("is_capturing", [] { return current_capture(current_device()) != nullptr; });
}

}  // namespace openhpu
