"""Makes the TensorFlow that is installed for $PYTHON_BIN_PATH (or python3) a repository: headers, libraries, flags."""

# Kept in step with setup.py, which refuses any other version too.
_MINOR = "2.21."

_ASK = """
import tensorflow as tf
print(tf.__version__)
print(tf.sysconfig.get_include())
print(tf.sysconfig.get_lib())
print(*[flag for flag in tf.sysconfig.get_compile_flags() if not flag.startswith("-I")])
"""

_BUILD = """
cc_library(
    name = "headers",
    hdrs = glob(["include/**"]),
    includes = ["include"],  # as system headers: their warnings are not ours
    visibility = ["//visibility:public"],
)

# The second library is the eager C interface.
cc_library(
    name = "libraries",
    srcs = [
        "libtensorflow_cc.so.2",
        "libtensorflow_framework.so.2",
    ],
    visibility = ["//visibility:public"],
)
"""

def _installed_tensorflow_impl(repository):
    python = repository.os.environ.get("PYTHON_BIN_PATH") or repository.which("python3")
    answer = repository.execute([python, "-c", _ASK], environment = {"TF_CPP_MIN_LOG_LEVEL": "3"})
    if answer.return_code != 0:
        fail("%s has no TensorFlow; set PYTHON_BIN_PATH to one that has. %s" % (python, answer.stderr))
    version, include, lib, flags = answer.stdout.strip().split("\n")
    if not version.startswith(_MINOR):
        fail("recgraph needs TensorFlow %sx, found %s" % (_MINOR, version))
    repository.symlink(include, "include")
    for library in ["libtensorflow_cc.so.2", "libtensorflow_framework.so.2"]:
        repository.symlink(lib + "/" + library, library)
    repository.file("BUILD", _BUILD)
    repository.file("flags.bzl", "TENSORFLOW_COPTS = %r\n" % flags.split(" "))

installed_tensorflow = repository_rule(
    implementation = _installed_tensorflow_impl,
    environ = ["PYTHON_BIN_PATH"],
    local = True,
)
