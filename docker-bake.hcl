# Both images of the Dockerfile by one command (docs/images.md):
#   docker buildx bake
variable "BASE" {
  default = "docker.io/library/debian:bookworm-slim"
}

group "default" {
  targets = ["runtime", "full"]
}

target "runtime" {
  target = "runtime"
  tags   = ["torch_vulkan:runtime"]
  args   = { BASE = BASE }
}

target "full" {
  inherits = ["runtime"]
  target   = "full"
  tags     = ["torch_vulkan:full"]
}
