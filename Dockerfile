# Two images (docs/images.md), both by `docker buildx bake`, or:
#   docker build --target runtime -t torch_vulkan:runtime .    vkexec and the C++ runtime, no Python
#   docker build -t torch_vulkan:full .                        also the Python package, with what
#                                                              tv.onnx and tv.Config need, and examples
# BASE is any Debian 12; scripts/images.sh makes one of Debian's packages where no hub can be reached.
ARG BASE=docker.io/library/debian:bookworm-slim

FROM ${BASE} AS build
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ccache cmake g++ \
    glslang-dev libcli11-dev libpcre2-dev libprotobuf-dev libspdlog-dev libutf8proc-dev libvulkan-dev \
    libyaml-cpp-dev ninja-build nlohmann-json3-dev protobuf-compiler python3-dev python3-venv spirv-tools \
    zlib1g-dev
ARG PIP_FIND_LINKS=
ARG PIP_NO_INDEX=
ENV CCACHE_DIR=/ccache
WORKDIR /src
COPY setup.cfg .
# Of the Python package onnx the build reads the messages' definition.
RUN python3 -m venv /venv && /venv/bin/python -m pip install -q --no-deps $(grep -o 'onnx==[0-9.]*' setup.cfg)
COPY . .
RUN cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DTV_PYTHON=OFF -DTV_TESTS=OFF \
    -DPython_EXECUTABLE=/venv/bin/python \
 && ninja -C build vkexec \
 && cmake --install build --strip --prefix /opt/torch_vulkan \
 && rm -r /opt/torch_vulkan/include /opt/torch_vulkan/lib/cmake

FROM build AS wheel
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG PIP_FIND_LINKS=
ARG PIP_NO_INDEX=
RUN /venv/bin/python -m pip install -q --extra-index-url "${TORCH_INDEX}" torch==2.13.0 numpy pybind11 \
    "setuptools>=68" wheel
RUN /venv/bin/python -m pip wheel -q --no-deps --no-build-isolation -w /dist . && cp setup.cfg /dist

FROM ${BASE} AS runtime
# NVIDIA's driver, which comes from the machine, is linked with the libraries of GL, EGL and X11, though it shows
# nothing. Of Mesa's packages what is not Vulkan goes: drivers of GL, and the control of an overlay, in Python.
ENV PATH=/opt/torch_vulkan/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    NVIDIA_DRIVER_CAPABILITIES=compute,graphics,utility
LABEL org.opencontainers.image.title="torch_vulkan" \
      org.opencontainers.image.description="vkexec: builds, runs and times Vulkan engines" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends libprotobuf-lite32 \
    libegl1 libgl1 libstdc++6 libvulkan1 libx11-6 libxext6 mesa-vulkan-drivers \
 && dpkg --purge --force-depends libgl1-mesa-dri \
    $(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' '*python3*' | sed -n 's/^ii *//p') \
 && rm -rf /var/lib/apt/lists /var/cache/* /var/log/*
COPY --from=build /opt/torch_vulkan /opt/torch_vulkan
COPY scripts/image/entrypoint.sh scripts/image/sbom.sh /opt/torch_vulkan/image/
COPY LICENSE /opt/torch_vulkan/LICENSE
# Engines that an image ships lie in the second folder, which vkexec and torch_vulkan only read.
RUN useradd --create-home --uid 10001 vulkan \
 && mkdir -p /usr/share/torch_vulkan/cache /workspace \
 && chown vulkan /workspace \
 && /opt/torch_vulkan/image/sbom.sh >/usr/share/torch_vulkan/sbom.spdx.json
USER vulkan
WORKDIR /workspace
HEALTHCHECK --interval=60s --timeout=20s CMD ["vkexec", "--listDevices"]
ENTRYPOINT ["/opt/torch_vulkan/image/entrypoint.sh"]

FROM runtime AS full
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG PIP_FIND_LINKS=
ARG PIP_NO_INDEX=
USER root
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get --fix-broken install -y -qq --no-install-recommends \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv \
 && rm -rf /var/lib/apt/lists /var/cache/* /var/log/*
COPY --from=wheel /dist /dist
RUN python3 -m venv /opt/venv \
 && /opt/venv/bin/python -m pip install -q --no-cache-dir --no-compile \
    --extra-index-url "${TORCH_INDEX}" torch==2.13.0 numpy "$(grep -o 'onnx==[0-9.]*' /dist/setup.cfg)" \
    "$(echo /dist/*.whl)[onnx,config]" \
 && rm -r /dist \
 && /opt/torch_vulkan/image/sbom.sh /opt/venv/bin/python >/usr/share/torch_vulkan/sbom.spdx.json
COPY examples /workspace/examples
COPY workloads /workspace/workloads
ENV PATH=/opt/venv/bin:${PATH}
USER vulkan
