# syntax=docker/dockerfile:1
# An image with recgraph for CPUs: the first stage compiles a wheel, the second one has no compiler.
ARG DEBIAN=python:3.12-slim-bookworm

FROM ${DEBIAN} AS wheel
RUN apt-get update && apt-get install --yes --no-install-recommends g++
WORKDIR /source
RUN python -m venv /tools && /tools/bin/pip install 'tensorflow-cpu==2.21.*' 'setuptools>=77' 'ninja>=1.11'
COPY . .
RUN /tools/bin/pip wheel --no-build-isolation --no-deps --wheel-dir /wheels .

FROM ${DEBIAN}
COPY --from=wheel /wheels /wheels
RUN python -m venv /opt/recgraph && /opt/recgraph/bin/pip install --no-cache-dir 'tensorflow-cpu==2.21.*' /wheels/*.whl && rm -r /wheels
ENV PATH=/opt/recgraph/bin:$PATH
RUN useradd --create-home user
USER user
WORKDIR /work
RUN recgraph doctor
CMD ["python"]
