# What both scripts begin with: how to speak, and where in the user's home something of ours may be.
#
# Arguments: nonce, then what each script wants. Lines end so that they may be joined by spaces; see script.rs.
n=$1; shift;
set -f;
say() { echo "qjam-$n $*"; };
case "$XDG_CACHE_HOME" in
  /*) home=$XDG_CACHE_HOME/qjam;;
  *) case "$HOME" in /*) home=$HOME/.cache/qjam;; *) home=;; esac;;
esac;
