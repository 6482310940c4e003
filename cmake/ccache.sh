#!/bin/sh
# ccache.sh ROOT CCACHE COMPILER ARGUMENTS...: compiles through ccache, which finds the same files of
# another clone again. Precompiled headers hold paths, so each clone compiles its own; beside one lies
# the digest of the text it was made of (CCACHE_PCH_EXTSUM), which stands for it in ccache's keys. Where
# that text cannot be read whole, there is no digest, and ccache reads the precompiled header.
root=$1 ccache=$2
shift 2
export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$root}" CCACHE_NOHASHDIR=1 CCACHE_PCH_EXTSUM=1
export CCACHE_SLOPPINESS=pch_defines,time_macros
command=" $* "
case $command in
  *".gch -c "* | *".pch -c "*) ;;
  *) exec "$ccache" "$@" ;;
esac
"$@" || exit
output=${command##* -o } dependencies=${command##* -MF }
output=${output%% *} dependencies=${dependencies%% *}
rm -f "$output.sum"
sed -e 's/^[^:]*://' -e 's/\\$//' "$dependencies" | tr -s ' \n' '\n\n' | sed '/^$/d' |
  tr '\n' '\0' | xargs -0 cat >"$output.text" &&
  sed "s#$root/##g" "$output.text" >"$output.anywhere" &&
  sha256sum <"$output.anywhere" >"$output.sum"
rm -f "$output.text" "$output.anywhere"
