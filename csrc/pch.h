#pragma once
// The precompiled header of the core: what nearly every file needs of PyTorch, and nothing of Python.
#include <ATen/core/TensorBase.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>
#include <torch/library.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>
