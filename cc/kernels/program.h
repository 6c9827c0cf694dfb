// A program: the bodies of a SubGraph and of all that it calls, with their gradients, as one
// function library. Instantiated once per device, however deep the recursion; freed with the last
// kernel that uses it.
#ifndef RECGRAPH_CC_KERNELS_PROGRAM_H_
#define RECGRAPH_CC_KERNELS_PROGRAM_H_

#include <mutex>
#include <memory>
#include <string>
#include <unordered_map>

#include "tensorflow/core/common_runtime/device_mgr.h"
#include "tensorflow/core/common_runtime/process_function_library_runtime.h"
#include "tensorflow/core/framework/function.h"

namespace recgraph {

// Makes a program known to this process, so that an op can name it by key alone: `key` is a hash
// of `library`, a serialised FunctionDefLibrary. Thread-safe; a second call does nothing.
void RegisterProgram(const std::string& key, const std::string& library);

class Program {
 public:
  using Handle = tensorflow::FunctionLibraryRuntime::Handle;

  // Releases its functions first: kernels that hold functions themselves, such as If, must find
  // the runtime alive.
  ~Program();

  // The program `key` on the device of `parent`. `library` may be empty where the program has been
  // registered.
  static absl::Status Get(tensorflow::FunctionLibraryRuntime* parent, const std::string& key,
                          const std::string& library, std::shared_ptr<Program>* program);

  // A function of the program, instantiated at its first use.
  absl::Status Function(const std::string& name, Handle* handle);

  // How many results the function has.
  absl::Status ResultCount(const std::string& name, int* count) const;

  // The user's "file:line" that made `node`, or "" where that is not known.
  std::string Origin(const std::string& node) const;

  tensorflow::FunctionLibraryRuntime* runtime() const { return runtime_; }

 private:
  Program() = default;
  static absl::Status Make(tensorflow::FunctionLibraryRuntime* parent, const std::string& library,
                           std::shared_ptr<Program>* program);

  std::unique_ptr<tensorflow::DeviceMgr> device_;
  std::unique_ptr<tensorflow::FunctionLibraryDefinition> definitions_;
  std::unique_ptr<tensorflow::ProcessFunctionLibraryRuntime> process_runtime_;
  tensorflow::FunctionLibraryRuntime* runtime_ = nullptr;  // owned by process_runtime_

  std::mutex mutex_;
  std::unordered_map<std::string, Handle> handles_;
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_KERNELS_PROGRAM_H_
