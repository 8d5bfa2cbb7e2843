#include "run/KernelFaults.h"

#include <csignal>
#include <unistd.h>

#include "observe/site.h"
#include "run/Operator.h"

namespace openhpu {
namespace {

thread_local const KernelCall* t_call = nullptr;

constexpr int kSignals[] = {SIGSEGV, SIGBUS};
struct sigaction earlier[2];
// Seconds that the message may take. It asks for the line of the script, which takes a lock.
constexpr unsigned kMessageSeconds = 5;

// The operand whose memory is nearest to the address, with the distance.
std::string nearest(const KernelCall& call, const char* address) {
  std::string found;
  size_t least = SIZE_MAX;
  const auto look = [&](const char* kind, size_t i, const Operand& operand) {
    const auto* begin = static_cast<const char*>(operand.data);
    if (!begin) return;
    const auto* end = begin + static_cast<size_t>(operand.numel()) * KernelCall::size_of(operand.dtype);
    const size_t distance = address < begin ? begin - address : address >= end ? address - end : 0;
    if (distance >= least) return;
    least = distance;
    const char* side = address < begin ? "before" : "behind";
    found = std::string(kind) + " " + std::to_string(i) + " (" + std::to_string(distance) + " bytes " + side + " it)";
  };
  for (size_t i = 0; i < call.input_count; ++i) look("input", i, call.inputs[i]);
  for (size_t i = 0; i < call.output_count; ++i) look("output", i, call.outputs[i]);
  return found.empty() ? "none of its operands has memory" : "the nearest operand is " + found;
}

void report(int signal, siginfo_t* info, void* context) {
  const int which = signal == kSignals[0] ? 0 : 1;
  if (const auto* call = std::exchange(t_call, nullptr)) {
    std::signal(SIGALRM, SIG_DFL);
    alarm(kMessageSeconds);
    const auto place = describe_site(running_site());
    const auto* address = static_cast<const char*>(info->si_addr);
    char hex[32];
    std::snprintf(hex, sizeof(hex), "%p", info->si_addr);
    const std::string text = std::string("openhpu: ") + call->op + ": its kernel for the guid '" + call->guid +
                             "' accessed memory at " + hex + ", which does not exist; " + nearest(*call, address) +
                             (place.empty() ? "" : "; the operator was issued at " + place) +
                             ". OPENHPU_CHECK_KERNELS=1 finds writes outside of operands.\n";
    [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
    alarm(0);
  }
  const auto& before = earlier[which];
  if (before.sa_flags & SA_SIGINFO) return before.sa_sigaction(signal, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(signal);
  std::signal(signal, SIG_DFL);  // the access faults again, and the system ends the process
}

void install() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (int which = 0; which < 2; ++which) {
      struct sigaction action{};
      action.sa_sigaction = &report;
      action.sa_flags = SA_SIGINFO | SA_ONSTACK;
      sigemptyset(&action.sa_mask);
      sigaction(kSignals[which], &action, &earlier[which]);
    }
  });
}

}  // namespace

FaultScope::FaultScope(const KernelCall& call) noexcept : outer_(std::exchange(t_call, &call)) { install(); }
FaultScope::~FaultScope() { t_call = outer_; }

}  // namespace openhpu
