// Asks a library's glue code, which has the entry points of either generation.
#include <string.h>

#include <stdexcept>

#include "gc_interface.h"
#include "node.h"
#include "tpc_kernel_lib_interface.h"

namespace gcapi {
extern "C" {
__attribute__((weak)) GlueCodeReturn_t GetKernelNames(char** names, unsigned* count, DeviceId_t device);
__attribute__((weak)) GlueCodeReturn_t
HabanaKernel(HabanaKernelParams_t* params, HabanaKernelInstantiation_t* instance);
}
}  // namespace gcapi
namespace tpc_lib_api {
extern "C" {
__attribute__((weak)) GlueCodeReturn GetKernelGuids(DeviceId device, uint32_t* count, GuidInfo* guids);
__attribute__((weak)) GlueCodeReturn
InstantiateTpcKernel(HabanaKernelParams* params, HabanaKernelInstantiation* instance);
}
}  // namespace tpc_lib_api

namespace tpc {
namespace {

constexpr size_t kElfBytes = 1 << 16;
constexpr size_t kMostElfBytes = size_t{1} << 28;
constexpr size_t kMostAuxiliaryBytes = size_t{1} << 30;

struct TypeRow {
  OpenhpuTpcType ours;
  int theirs;
  int bytes;
};
constexpr TypeRow kTypes[] = {
    {OPENHPU_TPC_F32, tpc_lib_api::DATA_F32, 4},       {OPENHPU_TPC_BF16, tpc_lib_api::DATA_BF16, 2},
    {OPENHPU_TPC_F16, tpc_lib_api::DATA_F16, 2},       {OPENHPU_TPC_F8_143, tpc_lib_api::DATA_F8_143, 1},
    {OPENHPU_TPC_F8_152, tpc_lib_api::DATA_F8_152, 1}, {OPENHPU_TPC_I32, tpc_lib_api::DATA_I32, 4},
    {OPENHPU_TPC_U32, tpc_lib_api::DATA_U32, 4},       {OPENHPU_TPC_I16, tpc_lib_api::DATA_I16, 2},
    {OPENHPU_TPC_U16, tpc_lib_api::DATA_U16, 2},       {OPENHPU_TPC_I8, tpc_lib_api::DATA_I8, 1},
    {OPENHPU_TPC_U8, tpc_lib_api::DATA_U8, 1},
};

const TypeRow& row_of(int type) {
  for (const TypeRow& row : kTypes)
    if (row.ours == type) return row;
  throw std::runtime_error("a tensor has a type that kernels do not know: number " + std::to_string(type));
}
const TypeRow& row_of_glue(int type) {
  for (const TypeRow& row : kTypes)
    if (row.theirs == type) return row;
  throw std::runtime_error(
      "the glue gives an auxiliary tensor of a type that kernels do not know: number " + std::to_string(type));
}

const char* meaning(int code) {
  switch (code) {
    case tpc_lib_api::GLUE_NODE_NOT_FOUND:
      return "it has no such guid";
    case tpc_lib_api::GLUE_INSUFFICIENT_ELF_BUFFER:
      return "the buffer for the kernel is too small";
    case tpc_lib_api::GLUE_INCOMPATIBLE_INPUT_COUNT:
      return "the number of inputs is wrong";
    case tpc_lib_api::GLUE_INCOMPATIBLE_INPUT_SIZE:
      return "it does not take these sizes of inputs";
    case tpc_lib_api::GLUE_INCOMPATIBLE_OUTPUT_COUNT:
      return "the number of outputs is wrong";
    case tpc_lib_api::GLUE_INCOMPATIBLE_OUTPUT_SIZE:
      return "it does not take these sizes of outputs";
    case tpc_lib_api::GLUE_INCOMPATIBLE_DATA_TYPE:
      return "it does not take these dtypes";
    case tpc_lib_api::GLUE_UNSUPPORTED_LAYER_CONFIGURATION:
      return "it does not take these parameters";
    case tpc_lib_api::GLUE_INSUFFICIENT_AUX_BUFFER_SIZE:
      return "the buffers of its auxiliary tensors are too small";
    case tpc_lib_api::GLUE_UNSUPPORTED_QUANT_PARAMS:
      return "it does not take these quantisation parameters";
    case tpc_lib_api::GLUE_UNSUPPORTED_BROADCAST_MODE:
      return "it does not broadcast these sizes";
    case tpc_lib_api::GLUE_KERNEL_INVALID_SCALAR_ARGUMENT:
      return "a number among its parameters is not allowed";
    case tpc_lib_api::GLUE_MISSING_PRIVATE_STRUCTURE:
      return "it needs parameters";
    case tpc_lib_api::GLUE_UNSUPPORTED_5D_TENSORS:
      return "it does not take tensors of 5 dimensions";
    default:
      return "it failed";
  }
}
[[noreturn]] void refused(const std::string& guid, int code) {
  throw std::runtime_error(
      "the glue of '" + guid + "' refuses the node: " + meaning(code) + " (code " + std::to_string(code) + ")");
}

template <class Device>
Device device_of(int generation, Device first, Device second, Device third) {
  return generation == 1 ? first : (generation == 3 ? third : second);
}

// Calls the glue until its buffers are large enough.
template <class Instantiation, class Call>
void call_glue(
    const std::string& guid, Instantiation& out, std::vector<char>& elf, std::vector<Auxiliary>& auxiliary, Call call,
    void (*prepare)(Instantiation&, std::vector<char>&, std::vector<Auxiliary>&),
    size_t (*wanted)(const Instantiation&), void (*grow)(const Instantiation&, std::vector<Auxiliary>&)) {
  for (int attempt = 0; attempt < 4; attempt++) {
    out = Instantiation{};
    prepare(out, elf, auxiliary);
    const int code = call(out);
    if (code == tpc_lib_api::GLUE_SUCCESS) return;
    const size_t bytes = wanted(out);
    if (code == tpc_lib_api::GLUE_INSUFFICIENT_ELF_BUFFER && bytes > elf.size() && bytes <= kMostElfBytes)
      elf.resize(bytes);
    else if (code == tpc_lib_api::GLUE_INSUFFICIENT_AUX_BUFFER_SIZE)
      grow(out, auxiliary);
    else
      refused(guid, code);
  }
  refused(guid, tpc_lib_api::GLUE_INSUFFICIENT_ELF_BUFFER);
}

void check_rank(const std::string& guid, int64_t rank) {
  if (rank < 1 || rank > kMaxDimensions)
    throw std::runtime_error(
        "the glue of '" + guid + "' gives an index space of " + std::to_string(rank) +
        " dimensions: 1 to 5 are possible");
}

template <class Geometry>
void describe(const OpenhpuTpcTensor& from, Geometry& to) {
  to.dims = static_cast<unsigned>(from.rank);
  for (int d = 0; d < kMaxDimensions; d++) {
    const auto size = d < from.rank ? from.sizes[d] : 1;
    if constexpr (requires { to.maxSizes; }) {
      to.maxSizes[d] = static_cast<uint64_t>(size);
      to.minSizes[d] = static_cast<uint64_t>(size);
    } else {
      to.sizes[d] = static_cast<unsigned>(size);
    }
  }
}

// Of the newer interface, whose patterns have one factor for both ends.
Pattern pattern_of(const tpc_lib_api::TensorAccessPattern& from, int rank, size_t space) {
  Pattern pattern;
  pattern.all = from.allRequired;
  pattern.complete = from.fullyAccessedOnce;
  for (int d = 0; d < rank; d++) {
    const auto& mapping = from.mapping[d];
    const int of = mapping.indexSpaceDim < space ? static_cast<int>(mapping.indexSpaceDim) : 0;
    pattern.dimensions[d] = {of, mapping.a, mapping.start_b, mapping.a, mapping.end_b, mapping.allRequired};
    pattern.declared |= mapping.a != 0 || mapping.start_b != 0 || mapping.end_b != 0 || mapping.allRequired;
  }
  return pattern;
}
// Of the older one.
Pattern pattern_of(const gcapi::TensorAccessPattern_t& from, int rank, size_t space) {
  Pattern pattern;
  pattern.all = from.allRequired;
  for (int d = 0; d < rank; d++) {
    const auto& mapping = from.dim[d];
    const int of = mapping.dim < space ? static_cast<int>(mapping.dim) : 0;
    pattern.dimensions[d] = {of, mapping.start_a, mapping.start_b, mapping.end_a, mapping.end_b, false};
    pattern.declared |= mapping.start_a != 0 || mapping.start_b != 0 || mapping.end_a != 0 || mapping.end_b != 0;
  }
  return pattern;
}
template <class Instantiation>
void keep_patterns(const Node& node, const Instantiation& out, Instance& instance) {
  for (size_t i = 0; i < node.inputs.size(); i++)
    instance.patterns.push_back(
        pattern_of(out.inputTensorAccessPattern[i], node.inputs[i].rank, instance.space.size()));
  for (size_t i = 0; i < node.outputs.size(); i++)
    instance.patterns.push_back(
        pattern_of(out.outputTensorAccessPattern[i], node.outputs[i].rank, instance.space.size()));
}

void keep_auxiliary(std::vector<Auxiliary>& kept, size_t index, int rank, const uint64_t* sizes, int type) {
  const TypeRow& row = row_of_glue(type);
  OpenhpuTpcTensor& description = kept[index].description;
  description.type = row.ours;
  description.rank = rank < 1 ? 1 : (rank > kMaxDimensions ? kMaxDimensions : rank);
  int64_t stride = 1;
  for (int d = 0; d < description.rank; d++) {
    description.sizes[d] = static_cast<int64_t>(sizes[d]);
    description.strides[d] = stride;
    stride *= description.sizes[d];
  }
  if (static_cast<size_t>(stride) * row.bytes > kept[index].data.size())
    throw std::runtime_error("the glue gives an auxiliary tensor that is larger than its buffer");
}

Instance newer(const Node& node, int generation, const void* parameters, size_t parameter_bytes) {
  using namespace tpc_lib_api;
  auto in = std::make_unique<HabanaKernelParams>();
  strncpy(in->guid.name, node.guid.c_str(), sizeof(in->guid.name) - 1);
  in->apiVersion = 1;
  in->deviceId = device_of(generation, DEVICE_ID_GAUDI, DEVICE_ID_GAUDI2, DEVICE_ID_GAUDI3);
  in->maxAvailableTpc = generation == 1 ? 8 : (generation == 3 ? 64 : 24);
  in->nodeParams.nodeParams = const_cast<void*>(parameters);
  in->nodeParams.nodeParamsSize = static_cast<uint32_t>(parameter_bytes);
  in->inputTensorNr = static_cast<uint32_t>(node.inputs.size());
  in->outputTensorNr = static_cast<uint32_t>(node.outputs.size());
  for (size_t i = 0; i < node.inputs.size(); i++) {
    describe(node.inputs[i], in->inputTensors[i].geometry);
    in->inputTensors[i].geometry.dataType = static_cast<TensorDataType>(row_of(node.inputs[i].type).theirs);
    in->inputTensors[i].quantizationParam.scale = 1;
  }
  for (size_t i = 0; i < node.outputs.size(); i++) {
    describe(node.outputs[i], in->outputTensors[i].geometry);
    in->outputTensors[i].geometry.dataType = static_cast<TensorDataType>(row_of(node.outputs[i].type).theirs);
    in->outputTensors[i].quantizationParam.scale = 1;
  }
  auto out = std::make_unique<HabanaKernelInstantiation>();
  std::vector<char> elf(kElfBytes);
  Instance instance;
  call_glue<HabanaKernelInstantiation>(
      node.guid, *out, elf, instance.auxiliary,
      [&](HabanaKernelInstantiation& o) { return static_cast<int>(InstantiateTpcKernel(in.get(), &o)); },
      [](HabanaKernelInstantiation& o, std::vector<char>& buffer, std::vector<Auxiliary>& tables) {
        o.kernel.kernelElf = buffer.data();
        o.kernel.elfSize = static_cast<uint32_t>(buffer.size());
        for (size_t i = 0; i < tables.size(); i++) {
          o.auxiliaryTensors[i].pData = tables[i].data.data();
          o.auxiliaryTensors[i].bufferSize = tables[i].data.size();
        }
      },
      [](const HabanaKernelInstantiation& o) { return static_cast<size_t>(o.kernel.elfSize); },
      [](const HabanaKernelInstantiation& o, std::vector<Auxiliary>& tables) {
        const uint32_t count =
            o.auxiliaryTensorNr > o.auxiliaryTensorCount ? o.auxiliaryTensorNr : o.auxiliaryTensorCount;
        tables.resize(count < MAX_TENSOR_NR ? count : MAX_TENSOR_NR);
        for (size_t i = 0; i < tables.size(); i++)
          tables[i].data.resize(
              o.auxiliaryTensors[i].bufferSize < kMostAuxiliaryBytes ? o.auxiliaryTensors[i].bufferSize : 0);
      });
  check_rank(node.guid, out->indexSpaceRank);
  instance.kernel = kernel_of_marker(elf.data(), out->kernel.elfSize, node.guid);
  for (uint32_t d = 0; d < out->indexSpaceRank; d++)
    instance.space.push_back(static_cast<int64_t>(out->indexSpaceGeometry[d]));
  const uint32_t scalars = out->kernel.paramsNr < MAX_SCALAR_PARAMS ? out->kernel.paramsNr : MAX_SCALAR_PARAMS;
  instance.scalars.assign(out->kernel.scalarParams, out->kernel.scalarParams + scalars);
  for (size_t i = 0; i < node.inputs.size(); i++) instance.padding.push_back(out->inputPadValues[i].u32);
  for (size_t i = 0; i < node.outputs.size(); i++)
    instance.cleared.push_back(out->outputTensorAccessPattern[i].memsetBeforeExecution);
  keep_patterns(node, *out, instance);
  for (size_t i = 0; i < instance.auxiliary.size(); i++) {
    const TensorGeometry& geometry = out->auxiliaryTensors[i].geometry;
    keep_auxiliary(instance.auxiliary, i, static_cast<int>(geometry.dims), geometry.maxSizes, geometry.dataType);
  }
  return instance;
}

Instance older(const Node& node, int generation, const void* parameters, size_t parameter_bytes) {
  using namespace gcapi;
  auto in = std::make_unique<HabanaKernelParams_t>();
  strncpy(in->nodeName, node.guid.c_str(), sizeof(in->nodeName) - 1);
  in->apiVersion = 1;
  in->deviceId = device_of(generation, DEVICE_ID_GAUDI, DEVICE_ID_GAUDI2, DEVICE_ID_GAUDI3);
  in->NodeParams = const_cast<void*>(parameters);
  in->NodeParamsSize = static_cast<unsigned>(parameter_bytes);
  in->inputTensorNr = static_cast<unsigned>(node.inputs.size());
  in->outputTensorNr = static_cast<unsigned>(node.outputs.size());
  for (size_t i = 0; i < node.inputs.size(); i++) {
    describe(node.inputs[i], in->inputTensors[i].geometry);
    in->inputTensors[i].dataType = static_cast<TensorDataType_t>(row_of(node.inputs[i].type).theirs);
    in->inputTensors[i].quantizationParam.scale = 1;
  }
  for (size_t i = 0; i < node.outputs.size(); i++) {
    describe(node.outputs[i], in->outputTensors[i].geometry);
    in->outputTensors[i].dataType = static_cast<TensorDataType_t>(row_of(node.outputs[i].type).theirs);
    in->outputTensors[i].quantizationParam.scale = 1;
  }
  auto out = std::make_unique<HabanaKernelInstantiation_t>();
  std::vector<char> elf(kElfBytes);
  Instance instance;
  call_glue<HabanaKernelInstantiation_t>(
      node.guid, *out, elf, instance.auxiliary,
      [&](HabanaKernelInstantiation_t& o) { return static_cast<int>(HabanaKernel(in.get(), &o)); },
      [](HabanaKernelInstantiation_t& o, std::vector<char>& buffer, std::vector<Auxiliary>& tables) {
        o.kernelElf = buffer.data();
        o.elfSize = static_cast<unsigned>(buffer.size());
        o.kernelBinary = buffer.data();
        o.binarySize = static_cast<unsigned>(buffer.size());
        for (size_t i = 0; i < tables.size(); i++) {
          o.auxiliaryTensors[i].pData = tables[i].data.data();
          o.auxiliaryTensors[i].bufferSize = static_cast<unsigned>(tables[i].data.size());
        }
      },
      [](const HabanaKernelInstantiation_t& o) {
        return static_cast<size_t>(o.elfSize > o.binarySize ? o.elfSize : o.binarySize);
      },
      [](const HabanaKernelInstantiation_t& o, std::vector<Auxiliary>& tables) {
        tables.resize(o.auxiliaryTensorCount < MAX_TENSOR_NR ? o.auxiliaryTensorCount : MAX_TENSOR_NR);
        for (size_t i = 0; i < tables.size(); i++)
          tables[i].data.resize(
              o.auxiliaryTensors[i].bufferSize < kMostAuxiliaryBytes ? o.auxiliaryTensors[i].bufferSize : 0);
      });
  check_rank(node.guid, out->indexSpaceGeometry.dims);
  instance.kernel = kernel_of_marker(elf.data(), out->elfSize < elf.size() ? out->elfSize : out->binarySize, node.guid);
  for (unsigned d = 0; d < out->indexSpaceGeometry.dims; d++)
    instance.space.push_back(out->indexSpaceGeometry.sizes[d]);
  const unsigned scalars = out->kernel.paramsNr < MAX_SCALAR_PARAMS ? out->kernel.paramsNr : MAX_SCALAR_PARAMS;
  instance.scalars.assign(out->kernel.scalarParams, out->kernel.scalarParams + scalars);
  for (size_t i = 0; i < node.inputs.size(); i++) instance.padding.push_back(out->inputPadValues[i].u32);
  instance.cleared.assign(node.outputs.size(), false);
  keep_patterns(node, *out, instance);
  for (size_t i = 0; i < instance.auxiliary.size(); i++) {
    const auto& table = out->auxiliaryTensors[i];
    uint64_t sizes[MAX_TENSOR_DIM];
    for (unsigned d = 0; d < MAX_TENSOR_DIM; d++) sizes[d] = table.geometry.sizes[d];
    keep_auxiliary(instance.auxiliary, i, static_cast<int>(table.geometry.dims), sizes, table.dataType);
  }
  return instance;
}

}  // namespace

int element_bytes(int type) { return row_of(type).bytes; }

int kernel_of_marker(const void* elf, size_t bytes, const std::string& guid) {
  const auto* marker = static_cast<const Marker*>(elf);
  if (bytes >= 4 && memcmp(elf, "\177ELF", 4) == 0)
    throw std::runtime_error(
        "the glue of '" + guid +
        "' gives a program for a card. Build the library with: openhpu tpc build KERNELS GLUE -o LIBRARY");
  const bool ours =
      bytes >= sizeof(Marker) && memcmp(marker->text, kMarker, sizeof(kMarker)) == 0 && marker->check == kMarkerCheck;
  if (!ours || marker->number >= static_cast<uint32_t>(kernel_count))
    throw std::runtime_error(
        "the glue of '" + guid +
        "' gives no kernel of this library. It copies the bytes between the symbols _binary_NAME_o_start and "
        "_binary_NAME_o_end");
  return static_cast<int>(marker->number);
}

std::vector<std::string> guids_of_glue(int generation) {
  std::vector<std::string> names;
  if (tpc_lib_api::GetKernelGuids != nullptr) {
    using namespace tpc_lib_api;
    const DeviceId device = device_of(generation, DEVICE_ID_GAUDI, DEVICE_ID_GAUDI2, DEVICE_ID_GAUDI3);
    uint32_t count = 0;
    int code = GetKernelGuids(device, &count, nullptr);
    std::vector<GuidInfo> infos(count);
    if (code == GLUE_SUCCESS && count > 0) code = GetKernelGuids(device, &count, infos.data());
    if (code != GLUE_SUCCESS) throw std::runtime_error(std::string("GetKernelGuids fails: ") + meaning(code));
    for (const GuidInfo& info : infos) names.emplace_back(info.name, strnlen(info.name, sizeof(info.name)));
  } else if (gcapi::GetKernelNames != nullptr) {
    using namespace gcapi;
    const DeviceId_t device = device_of(generation, DEVICE_ID_GAUDI, DEVICE_ID_GAUDI2, DEVICE_ID_GAUDI3);
    unsigned count = 0;
    int code = GetKernelNames(nullptr, &count, device);
    std::vector<std::vector<char>> text(count, std::vector<char>(MAX_NODE_NAME, 0));
    std::vector<char*> places;
    for (auto& each : text) places.push_back(each.data());
    if (code == GLUE_SUCCESS && count > 0) code = GetKernelNames(places.data(), &count, device);
    if (code != GLUE_SUCCESS) throw std::runtime_error(std::string("GetKernelNames fails: ") + meaning(code));
    for (const auto& each : text) names.emplace_back(each.data());
  } else {
    throw std::runtime_error("the library's glue has neither GetKernelGuids nor GetKernelNames");
  }
  return names;
}

Instance instantiate(const Node& node, int generation, const void* parameters, size_t parameter_bytes) {
  if (tpc_lib_api::InstantiateTpcKernel != nullptr) return newer(node, generation, parameters, parameter_bytes);
  if (gcapi::HabanaKernel != nullptr) return older(node, generation, parameters, parameter_bytes);
  throw std::runtime_error("the library's glue has neither InstantiateTpcKernel nor HabanaKernel");
}

}  // namespace tpc
