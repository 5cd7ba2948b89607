// Functions of a library that was opened at run time, because most machines lack it. Header only:
// rt-probe and rt-gpu-suspend link nothing of ours.
#pragma once

#include <dlfcn.h>

namespace rt::worker {

// False: it has none of this name, and `function` is null.
template <class Function>
bool FindSymbol(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace rt::worker
