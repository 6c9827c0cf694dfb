"""Makes the TensorFlow and the Python of $PYTHON_BIN_PATH (or python3) a repository: headers, libraries, flags."""

# Kept in step with setup.py, which refuses any other version too.
_MINOR = "2.21."

_ASK = """
import sysconfig
import tensorflow as tf
print(tf.__version__)
print(tf.sysconfig.get_include())
print(tf.sysconfig.get_lib())
print(sysconfig.get_paths()["include"])
print(*[flag for flag in tf.sysconfig.get_compile_flags() if not flag.startswith("-I")])
"""

_BUILD = """
load("@rules_cc//cc:defs.bzl", "cc_library")

package(default_visibility = ["//visibility:public"])

# `includes` makes these system headers: their warnings are not ours.
cc_library(
    name = "headers",
    hdrs = glob(["include/**"]),
    includes = ["include"],
)

cc_library(
    name = "python_headers",
    hdrs = glob(["python/**"]),
    includes = ["python"],
)

# The second library is the eager C interface.
cc_library(
    name = "libraries",
    srcs = [
        "libtensorflow_cc.so.2",
        "libtensorflow_framework.so.2",
    ],
)
"""

def _installed_tensorflow_impl(repository):
    python = repository.getenv("PYTHON_BIN_PATH") or repository.which("python3")
    answer = repository.execute([python, "-c", _ASK], environment = {"TF_CPP_MIN_LOG_LEVEL": "3"})
    if answer.return_code != 0:
        fail("%s has no TensorFlow; set PYTHON_BIN_PATH to one that has. %s" % (python, answer.stderr))
    version, include, lib, python_include, flags = answer.stdout.strip().split("\n")
    if not version.startswith(_MINOR):
        fail("recgraph needs TensorFlow %sx, found %s" % (_MINOR, version))
    repository.symlink(include, "include")
    repository.symlink(python_include, "python")
    for library in ["libtensorflow_cc.so.2", "libtensorflow_framework.so.2"]:
        repository.symlink(lib + "/" + library, library)
    repository.file("BUILD", _BUILD)
    repository.file("flags.bzl", "TENSORFLOW_COPTS = %r\n" % flags.split(" "))

_installed_tensorflow = repository_rule(implementation = _installed_tensorflow_impl, local = True)

def _installed_impl(_):
    _installed_tensorflow(name = "tensorflow")

installed = module_extension(implementation = _installed_impl)
