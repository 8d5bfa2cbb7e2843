#pragma once

namespace openhpu {

// In lazy mode an operand on the CPU is moved to the device, as on a Gaudi. The gradient of such an operand has to come
// back to the CPU, but the generic kernel runs below autograd: when it moves an operand, autograd has not yet attached
// its node to the results. This corrects the nodes of the calls that moved something: between the node and the operand
// it puts a copy back to the CPU. It runs before the thread's next operator and before a backward begins.
void return_moved_gradients();

}  // namespace openhpu
