// Lazy mode and the compiler's side of the graph cache.
#include <c10/util/ScopeExit.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>

#include "call/OpKernel.h"
#include "observe/Differences.h"
#include "observe/KernelReports.h"
#include "observe/events.h"
#include "observe/site.h"
#include "python/bindings.h"
#include "recipes/GraphCache.h"
#include "record/GraphSights.h"
#include "record/Lazy.h"
#include "run/Eager.h"
#include "run/UserKernel.h"
#include "torch/HPUDevice.h"

namespace openhpu {
namespace {

using Kind = CallTemplate::ArgKind;

// The graph as the compiler takes it: plain Python data (openhpu/compiler/program/description.py).
class Describe {
 public:
  explicit Describe(const CompileRequest& request) : request_(request), graph_(request.graph) {}

  py::dict operator()() {
    graph_.visit_integers([&](const void* node, const void* of, c10::IntArrayRef values, bool) {
      py::tuple out(values.size());
      for (size_t i = 0; i < values.size(); ++i) out[i] = next_integer(values[i]);
      integers_[{node, of}].push_back(std::move(out));
    });
    py::list nodes;
    for (const auto& node : graph_.nodes) nodes.append(describe(node));
    py::list slots, live;
    const uint64_t* liveness = graph_.words.data() + graph_.words.size() - graph_.slots.size();
    for (size_t i = 0; i < graph_.slots.size(); ++i) {
      const auto& slot = graph_.slots[i];
      slots.append(
          py::dict("kind"_a = slot.fresh ? "fresh" : "input", "nbytes"_a = integers_.at({nullptr, &slot})[0][0]));
      if (liveness[i] & 1) live.append(i);
    }
    py::dict out(
        "slots"_a = slots, "nodes"_a = nodes, "live"_a = live, "scalars"_a = scalars_, "variable"_a = variable_,
        "threads"_a = threads_for(graph_.largest()), "sites"_a = sites_, "lenient"_a = lenient_indices(),
        "int32"_a = narrow_int64(), "e4m3"_a = level_of(Difference::E4m3Range) == Level::AsGaudi);
    if (!request_.formulas.empty()) {
      py::dict symbols;
      for (size_t i = 0; i < request_.symbols.size(); ++i)
        symbols[py::str("n" + std::to_string(i))] = py::dict("hint"_a = request_.symbols[i]);
      out["symbols"] = symbols;
    }
    if (!request_.constants.empty()) {
      py::dict constants;
      for (const auto& [slot, contents] : request_.constants) constants[py::int_(slot)] = py::bytes(contents);
      out["constants"] = constants;
    }
    return out;
  }

  // Where each of the description's scalars stands among the graph's words, and its kind.
  std::vector<RecipeManifest::NumberSpec> numbers;

 private:
  // The graph's next integer, or the formula for it.
  py::object next_integer(int64_t value) {
    if (request_.formulas.empty()) return py::int_(value);
    const auto& formula = request_.formulas.at(next_integer_++);
    if (formula.is_constant()) return py::int_(value);
    return py::str(formula.text());
  }

  static py::object size_argument(const py::handle& value) {
    return py::make_tuple(py::isinstance<py::str>(value) ? "size" : "const", value);
  }

  int64_t add_scalar(const c10::IValue& value, RecipeManifest::NumberSpec where) {
    bool variable = false;
    for (size_t i = where.word; i < where.word + where.words(); ++i) variable = variable || request_.variable[i];
    scalars_.append(torch::jit::toPyObject(value));
    variable_.append(variable);
    numbers.push_back(where);
    return static_cast<int64_t>(numbers.size()) - 1;
  }

  py::object number(Kind kind, size_t word) {
    const auto value = number_of(kind, graph_.numbers.data() + word);
    return py::make_tuple("scalar", add_scalar(value, {.word = static_cast<uint32_t>(word), .kind = kind}));
  }

  py::object operand(const CallTemplate& call, int32_t k, const Graph::Node& node) {
    if (k < 0) return py::make_tuple("const", py::none());
    const auto& o = call.operands[k];
    const auto type = c10::typeMetaToScalarType(o.dtype);
    const auto dtype = py::cast(type);
    if (o.on_host) {
      const uint32_t word = node.numbers + o.number;
      const auto index = add_scalar(host_value(o, graph_.numbers.data() + word), {.word = word, .host = type});
      return py::make_tuple("cpu_scalar", index, dtype, o.wrapped_number);
    }
    uint32_t slot = 0;
    graph_.for_each_operand(node, [&](const auto& other, uint64_t place) {
      if (&other == &o) slot = Graph::slot_of(place);
    });
    const int flags = static_cast<int>(o.conj) | static_cast<int>(o.neg) << 1 | static_cast<int>(o.wrapped_number) << 2;
    const auto& integers = integers_.at({&node, &o});
    return py::make_tuple("tensor", slot, dtype, integers[0], integers[1], integers[2][0], flags);
  }

  py::object argument(const CallTemplate& call, size_t i, const Graph::Node& node) {
    const auto& arg = call.args[i];
    switch (arg.kind) {
      case Kind::Constant:
        if (arg.constant.isDevice()) return py::make_tuple("const", py::cast(c10::Device(c10::kHPU)));
        if (arg.constant.isTensor()) return py::make_tuple("const", py::none());  // an undefined one
        if (arg.constant.isInt()) return size_argument(integers_.at({&node, &arg})[0][0]);
        if (arg.constant.isIntList()) {
          const auto& values = integers_.at({&node, &arg})[0];
          if (request_.formulas.empty()) return py::make_tuple("const", py::list(values));
          py::list list;
          for (const auto& value : values) list.append(size_argument(value));
          return py::make_tuple("list", list);
        }
        return py::make_tuple("const", torch::jit::toPyObject(arg.constant));
      case Kind::Tensor:
        return operand(call, static_cast<int32_t>(arg.first), node);
      case Kind::TensorList:
      case Kind::OptionalTensorList: {
        py::list list;
        for (int32_t k : arg.elements) list.append(operand(call, k, node));
        return py::make_tuple("list", list);
      }
      case Kind::NumberList: {
        py::list list;
        size_t word = node.numbers + arg.first;
        for (auto kind : arg.kinds) {
          list.append(number(kind, word));
          word += kind == Kind::Complex ? 2 : 1;
        }
        return py::make_tuple("list", list);
      }
      default:
        return number(arg.kind, node.numbers + arg.first);
    }
  }

  py::dict describe(const Graph::Node& node) {
    const auto& call = *node.entry->call;
    py::list args, outputs;
    for (size_t i = 0; i < call.args.size(); ++i) args.append(argument(call, i, node));
    const uint64_t* fresh = graph_.for_each_operand(node, [](const auto&, uint64_t) {});
    for (const auto& o : node.entry->outputs) {
      switch (o.kind) {
        case OutputSpec::Kind::Fresh: {
          const auto& integers = integers_.at({&node, &o});
          outputs.append(
              py::make_tuple(
                  "fresh", fresh[o.index], py::cast(c10::typeMetaToScalarType(o.dtype)), integers[0], integers[1],
                  integers[2][0]));
          break;
        }
        case OutputSpec::Kind::Argument:
          outputs.append(py::make_tuple("argument", o.index));
          break;
        case OutputSpec::Kind::Undefined:
          outputs.append(py::make_tuple("undefined"));
          break;
      }
    }
    const auto& kernel = *call.kernel;
    const bool renamed = kernel.traits().seeded || is_user_kernel(kernel);
    py::dict out(
        "op"_a = renamed ? c10::toString(kernel.schema().operator_name()) : kernel.name(), "args"_a = args,
        "outputs"_a = outputs, "site"_a = node.site);
    if (call.widening) out["widened"] = py::make_tuple(call.widening.from, call.widening.to);
    if (node.site && !sites_.contains(py::int_(node.site))) sites_[py::int_(node.site)] = line_of(node.site);
    return out;
  }

  const CompileRequest& request_;
  const Graph& graph_;
  py::list scalars_, variable_;
  py::dict sites_;
  std::map<std::pair<const void*, const void*>, std::vector<py::tuple>>
      integers_;  // of an operand and the like of a node
  size_t next_integer_ = 0;
};

Formula formula_of(const py::handle& value) {
  return py::isinstance<py::str>(value) ? Formula::parse(py::cast<std::string>(value))
                                        : Formula::constant(py::cast<int64_t>(value));
}

std::vector<Formula> formulas_of(const py::handle& list) {
  std::vector<Formula> out;
  for (const auto& value : list) out.push_back(formula_of(value));
  return out;
}

std::vector<RecipeManifest::TensorSpec> tensor_specs(const py::object& list) {
  std::vector<RecipeManifest::TensorSpec> out;
  for (const auto& t : list)
    out.push_back(
        {py::cast<uint32_t>(t.attr("slot")), py::cast<at::ScalarType>(t.attr("dtype")), formulas_of(t.attr("sizes")),
         formulas_of(t.attr("strides")), formula_of(t.attr("offset"))});
  return out;
}

using Numbers = std::vector<RecipeManifest::NumberSpec>;

// What these nodes count, from the node `first` of the graph on.
std::vector<RecipeManifest::Counted> counted_of(const Graph& graph, const py::object& indices, size_t first) {
  std::vector<RecipeManifest::Counted> found;
  for (const auto& index : indices) {
    const auto& node = graph.nodes.at(first + py::cast<size_t>(index));
    found.push_back({user_name(*node.entry->call->kernel), node.site});
  }
  return found;
}

// `numbers`: by scalar of the recipe.
RecipeManifest manifest_of(const py::handle& manifest, const Graph& graph, const Numbers& numbers) {
  RecipeManifest out;
  out.name = py::cast<std::string>(manifest.attr("key")).substr(0, 16);
  out.inputs = tensor_specs(manifest.attr("inputs"));
  out.outputs = tensor_specs(manifest.attr("outputs"));
  out.threads = py::cast<int>(manifest.attr("threads"));
  for (const auto& guard : manifest.attr("guards")) {
    const auto sides = formulas_of(guard);
    out.guards.emplace_back(sides.at(0), sides.at(1));
  }
  out.counted = counted_of(graph, manifest.attr("counted"), 0);
  out.overflowing = counted_of(graph, manifest.attr("overflowing"), 0);
  out.operators = py::cast<size_t>(manifest.attr("nodes"));
  for (const auto& calls : manifest.attr("external_kernels").attr("values")())
    out.external_kernels += py::cast<size_t>(calls);
  for (const auto& input : manifest.attr("scalar_inputs")) {
    out.numbers.push_back(numbers.at(py::cast<size_t>(input.attr("index"))));
    out.numbers.back().dtype = py::cast<at::ScalarType>(input.attr("dtype"));
  }
  return out;
}

// The regions of a manifest, by key. Adds the calls to `out`. A region takes its numbers one behind the other.
RecipeLibrary::Regions regions_of(
    const py::object& manifest, const Graph& graph, const Numbers& numbers, const std::vector<std::string>& libraries,
    RecipeManifest& out) {
  const auto described = py::cast<std::vector<py::object>>(manifest.attr("regions"));
  RecipeLibrary::Regions regions(described.size());
  for (const auto& called : manifest.attr("calls")) {
    RecipeManifest::Call call;
    call.region = py::cast<int32_t>(called.attr("region"));
    call.slots = py::cast<std::vector<uint32_t>>(called.attr("slots"));
    const auto node = py::cast<uint32_t>(called.attr("node"));
    call.range = {node, static_cast<uint32_t>(graph.nodes.size())};
    if (!out.calls.empty()) out.calls.back().range.end = node;
    if (call.region < 0) {
      out.calls.push_back(std::move(call));
      continue;
    }
    Numbers of_call;
    for (const auto& index : called.attr("scalars")) of_call.push_back(numbers.at(py::cast<size_t>(index)));
    const auto& source = described.at(call.region);
    call.counted = counted_of(graph, source.attr("counted"), node);
    call.overflowing = counted_of(graph, source.attr("overflowing"), node);
    auto region = manifest_of(source, graph, of_call);
    uint32_t words = 0;
    for (auto& number : region.numbers) {
      call.words.push_back(std::exchange(number.word, words));
      words += static_cast<uint32_t>(number.words());
    }
    region.counted = call.counted;
    region.overflowing = call.overflowing;
    region.library = libraries.at(call.region);
    auto& [key, known] = regions[call.region];
    if (key.empty()) {
      key = py::cast<std::string>(source.attr("key"));
      known = std::move(region);
    }
    out.calls.push_back(std::move(call));
  }
  for (const auto& region : regions) TORCH_CHECK(!region.first.empty(), "a recipe has a region that it does not call");
  return regions;
}

CompilePolicy policy_of(const std::string& name) {
  if (name == "sync") return CompilePolicy::Sync;
  if (name == "background") return CompilePolicy::Background;
  return CompilePolicy::Off;
}

// What is not given has the default of GraphCache::Limits.
void configure_graphs(
    const std::string& policy, size_t max_graphs, size_t max_operators, std::optional<size_t> max_libraries,
    std::optional<double> longest_wait_s, std::optional<double> idle_compiler_s) {
  GraphCache::Limits limits;
  limits.graphs = max_graphs;
  limits.libraries = max_libraries.value_or(limits.libraries);
  limits.wait_s = longest_wait_s.value_or(limits.wait_s);
  limits.compiler_idles_s = idle_compiler_s.value_or(limits.compiler_idles_s);
  GraphCache::instance().configure(policy_of(policy), limits);
  GraphSights::instance().set_most(max_graphs);
  set_max_graph_size(max_operators);
}

std::atomic<bool> break_description{false};

// Requests that the service has taken and not yet answered.
struct Open {
  CompileRequest request;
  std::vector<RecipeManifest::NumberSpec> numbers;
};
std::mutex open_mutex;
auto& open_requests = *new std::unordered_map<uint64_t, Open>();

Open take_open(uint64_t id) {
  std::lock_guard lock(open_mutex);
  auto node = open_requests.extract(id);
  TORCH_CHECK(!node.empty(), "no compilation ", id, " was asked for");
  return std::move(node.mapped());
}

}  // namespace

void bind_graph(py::module& m) {
  m.def("set_mode", [](const std::string& mode) {
    TORCH_CHECK(mode == "eager" || mode == "lazy", "unknown mode '", mode, "'; there are: eager, lazy");
    g_lazy.store(mode == "lazy", std::memory_order_relaxed);
  });
  m.def(
      "configure_graphs", &configure_graphs, py::arg("policy"), py::arg("max_graphs"), py::arg("max_operators"),
      py::kw_only(), py::arg("max_libraries") = py::none(), py::arg("longest_wait_s") = py::none(),
      py::arg("idle_compiler_s") = py::none());
  m.def(
      "flush",
      [](int i) {
        if (auto* d = open_device(static_cast<c10::DeviceIndex>(i))) flush(*d);
      },
      py::arg("device") = -1);
  // (identity, description), or (None, (why, number of operators, line)) where a graph could not be described: that
  // request has failed then. None at the end.
  m.def("next_compile_request", []() -> py::object {
    CompileRequest request;
    {
      py::gil_scoped_release no_gil;
      if (!GraphCache::instance().next_request(request)) return py::none();
    }
    const uint64_t id = request.id;
    try {
      TORCH_CHECK(!break_description.exchange(false), "for a test");
      Describe describe(request);
      py::object answer = py::make_tuple(id, describe());
      std::lock_guard lock(open_mutex);
      open_requests[id] = {std::move(request), std::move(describe.numbers)};
      return answer;
    } catch (const std::exception& error) {
      const std::string why = "it can't be described: " + std::string(error.what());
      GraphCache::instance().answer(id, nullptr);
      auto [file, line] = resolve_site(request.graph.nodes.front().site);
      auto text = py::reinterpret_steal<py::object>(
          PyUnicode_DecodeUTF8(why.data(), static_cast<Py_ssize_t>(why.size()), "replace"));
      return py::make_tuple(
          py::none(), py::make_tuple(text, request.graph.nodes.size(), file + ":" + std::to_string(line)));
    }
  });
  // For tests: the next graph can't be described.
  m.def("break_description", [] { break_description.store(true); });
  // `manifest`: an object of openhpu.compiler.client.manifest.Manifest. `libraries`: paths; of a manifest with regions
  // one for each.
  m.def(
      "recipe_ready",
      [](uint64_t id, const py::object& manifest, const std::vector<std::string>& libraries, std::string program) {
        const auto [request, numbers] = take_open(id);
        // Even if it is wrong, a thread may be waiting for an answer.
        auto no_answer = c10::make_scope_exit(
            [id] { release("a request for a recipe", [id] { GraphCache::instance().answer(id, nullptr); }); });
        // The compiler may have had to compile numbers in that were seen to change.
        auto variable = std::vector<bool>(request.variable.size(), false);
        for (const auto& index : manifest.attr("variable")) {
          const auto& n = numbers.at(py::cast<size_t>(index));
          for (size_t k = 0; k < n.words(); ++k) variable.at(n.word + k) = true;
        }
        auto out = manifest_of(manifest, request.graph, numbers);
        out.library = libraries.at(0);
        out.program = std::move(program);
        const auto regions = regions_of(manifest, request.graph, numbers, libraries, out);
        py::gil_scoped_release no_gil;
        auto& cache = GraphCache::instance();
        std::shared_ptr<RecipeLibrary> library;
        if (regions.empty()) {
          cache.make_room(1);
          library = std::make_shared<RecipeLibrary>(std::move(out), request.graph.numbers, variable);
        } else {
          library = std::make_shared<RecipeLibrary>(std::move(out), regions, request.graph.numbers, variable);
          cache.make_room(library->missing());
          library->load(regions);
        }
        cache.answer(id, std::move(library));
        no_answer.release();
      });
  // Of one that was answered before it does nothing.
  m.def("recipe_failed", [](uint64_t id) {
    {
      std::lock_guard lock(open_mutex);
      open_requests.erase(id);
    }
    GraphCache::instance().answer(id, nullptr);
  });
  m.def("wait_for_recipes", [](double seconds) { return GraphCache::instance().wait_idle(seconds); });
  m.def("has_compile_requests", [] { return GraphCache::instance().has_requests(); });
  m.def("wait_for_compile_requests", [](double seconds) { return GraphCache::instance().wait_taken(seconds); });
  m.def("awaited_recipes", [] { return GraphCache::instance().awaited(); });
  m.def("compiler_is_in_a_hurry", [] { return GraphCache::instance().in_a_hurry(); });
  m.def("next_wait_notice", [](const std::vector<double>& after) -> py::object {
    TORCH_CHECK(!after.empty(), "next_wait_notice needs a number of seconds");
    CompilerWait notice;
    {
      py::gil_scoped_release no_gil;
      if (!GraphCache::instance().next_notice(after, notice)) return py::none();
    }
    return py::dict(
        "wait"_a = notice.wait, "operators"_a = notice.operators, "site"_a = site_of(notice.site),
        "graphs"_a = notice.graphs, "seconds"_a = notice.seconds, "over"_a = notice.over,
        "given_up"_a = notice.given_up);
  });
  m.def("close_graphs", [] { GraphCache::instance().close(); });
  m.def("clear_graphs", [] {
    GraphCache::instance().clear();
    GraphSights::instance().clear();
  });
  m.def("compile_progress", [] { return GraphCache::instance().progress(); });
  m.def("recipe_libraries", [] { return RecipeLibrary::loaded(); });
  m.def("graphs_seen", [] { return GraphCache::instance().size(); });
  m.def("recompilations", [] {
    py::list out;
    for (const auto& r : GraphCache::instance().recompilations()) {
      out.append(
          py::dict(
              "cause"_a = r.cause, "op"_a = r.op, "argument"_a = r.argument,
              "dimension"_a = r.dimension < 0 ? py::object(py::none()) : py::cast(r.dimension), "before"_a = r.before,
              "after"_a = r.after, "site"_a = site_of(r.site), "time_ns"_a = r.time_ns));
    }
    return out;
  });
  m.def("recipes", [] {
    py::list out;
    for (const auto& compiled : GraphCache::instance().recipes()) {
      const auto& manifest = compiled->manifest();
      out.append(
          py::dict(
              "name"_a = manifest.name, "library"_a = manifest.library, "program"_a = manifest.program,
              "operators"_a = manifest.operators, "external_kernels"_a = manifest.external_kernels,
              "calls"_a = manifest.calls.size()));
    }
    return out;
  });
}

}  // namespace openhpu
