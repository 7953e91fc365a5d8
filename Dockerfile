# A small image of the program, for every x86-64 processor (docs/container.md):
#
#   docker build --tag accrue .
ARG BUILD_BASE=docker.io/library/debian:12-slim
ARG BASE=docker.io/library/debian:12-slim

FROM $BUILD_BASE AS build
ARG OPTIONS=
WORKDIR /accrue
COPY . .
RUN scripts/setup.sh && apt-get install --yes --no-install-recommends dpkg-dev file
RUN cmake --preset package -DCMAKE_UNITY_BUILD=ON $OPTIONS && cmake --build --preset package
# By -G also with CUDA, whose libraries no package of Debian has: they are in the base.
RUN cpack -G DEB --config build/package/CPackConfig.cmake -B packages

FROM $BASE
RUN --mount=type=bind,from=build,source=/accrue/packages,target=/packages \
    apt-get update && apt-get install --yes --no-install-recommends /packages/accrue_*.deb && \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/*
RUN useradd --create-home accrue && install --directory --owner=accrue --group=accrue /runs
USER accrue
VOLUME /runs
WORKDIR /runs
ENTRYPOINT ["accrue"]
CMD ["--help"]
