// The option `planned_device`: the name of a known GPU, or the path of a device file.
#pragma once

#include "arguments.h"

#include <tilewright/plan.h>

#include <memory>
#include <string>

namespace tilewright::python {

/// Null: the GPU that is present. Keeps the description of a file alive.
using PlannedDevice = std::shared_ptr<const DeviceDescription>;

/// The device of this name or of this file; null for None and "automatic". A file is read again only when it changed.
/// Throws Error about `planned_device` for any other value, and for every mistake in a file.
PlannedDevice planned_device(nb::handle value);

/// The word by which a later call finds the same device, from any working directory: a path becomes absolute. Throws as
/// `planned_device` does, and for None.
std::string lasting_device_word(nb::handle value);

}  // namespace tilewright::python
