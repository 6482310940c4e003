#!/bin/sh
# The entry point of the images: vkexec; without arguments, its version and the devices it sees.
[ $# -gt 0 ] && exec vkexec "$@"
vkexec --version
vkexec --listDevices || exit
echo "Give vkexec's arguments behind the image's name, --help for example."
