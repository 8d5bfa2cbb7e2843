#pragma once

namespace openhpu {

// The schema of openhpu::adam_step, the Adam update of many parameters by the device's kernel. The core defines the
// operator (FusedOptimizers.cpp). The compile process, which does not load the core, defines it too
// (compiler/program/fused_steps.py, through _machine).
constexpr const char* kAdamStepSchema =
    "adam_step(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] averages, Tensor(c!)[] squares, Tensor[] steps, "
    "Tensor lr, float beta1, float beta2, float weight_decay, float eps, bool decoupled, bool maximize) -> ()";

}  // namespace openhpu
