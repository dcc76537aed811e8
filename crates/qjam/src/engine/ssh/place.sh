# Finds a place for the worker, takes its bytes if they are not there, and becomes it.
#
# Arguments: BLAKE3, SHA-256 and length of the executable, system and machine it is for, after how many seconds without a byte a
# copy is given up, and whether to copy it in any case.
#
# Other users of this host may have been in a place before us, and may be watching: a folder or file is used only if it is ours
# and nobody else can write to it, or to any folder above it, and nothing that is there already is written to (noclobber opens new
# files alone). A file runs only after its hash was compared, by whatever tool the host has.
h=$1; h2=$2; size=$3; machine="$4 $5"; stall=$6; fresh=$7;
here=$(uname -s -m);
say hello "$here";
if [ "$here" = "$machine" ]; then :; else exit 0; fi;
need=$((size / 1024 + 1));
mask=$(umask); umask 077;
set -C;
u=$(id -u);
# A group of our own has no others in it.
g=none; me=$(id -un 2>/dev/null);
if [ -n "$me" ] && [ "$me" = "$(id -gn 2>/dev/null)" ]; then g=$(id -g); fi;

become() {
  umask "$mask";
  say start "$d";
  QJAM_SUPERVISOR="1;$n;$h;$d"; export QJAM_SUPERVISOR;
  exec "$w";
};

# Whether something of this kind (d or -) is ours, and nobody else can write to it.
ours() {
  if [ -h "$1" ]; then return 1; fi;
  set -- "$2" $(ls -ldn "$1" 2>/dev/null);
  case "$2" in "$1"????-??-?*) [ "$4" = "$u" ];; *) return 1;; esac;
};

# Whether nobody else can put something in the place of what lies in a folder: it and all above it belong to us or to root, and
# others can write to it only if it is sticky. The path has no symbolic links.
shut() {
  p=$1; set --;
  while [ -n "$p" ]; do set -- "$p/." "$@"; p=${p%/*}; done;
  ls -ldn "$@" /. 2>/dev/null | {
    left=$(($# + 1));
    while read mode x owner group x; do
      case "$mode" in
        d????????[tT]*) ;;
        d????-??-?*) ;;
        d????w??-?*) if [ "$group" = "$g" ]; then :; else return 1; fi;;
        *) return 1;;
      esac;
      if [ "$owner" = 0 ] || [ "$owner" = "$u" ]; then :; else return 1; fi;
      left=$((left - 1));
    done;
    [ "$left" = 0 ];
  };
};

# The first of these commands that knows how to make a sum has the word: whether it is the one that is wanted. One that prints
# something else, or is not there, has none.
sum() {
  sent=$1; shift;
  there=$("$@" 2>/dev/null < /dev/null | { read x y; echo "$x"; });
  if [ "${#there}" = 64 ]; then :; else return 2; fi;
  [ "$there" = "$sent" ];
};

# Whether a file is what was sent, where there is a tool to tell. The worker compares its hash in any case, once it runs.
whole() {
  sum "$h" b3sum "$1"; r=$?;
  if [ "$r" = 2 ]; then sum "$h2" sha256sum "$1"; r=$?; fi;
  if [ "$r" = 2 ]; then sum "$h2" shasum -a 256 "$1"; r=$?; fi;
  if [ "$r" = 2 ]; then sum "$h2" openssl dgst -sha256 -r "$1"; r=$?; fi;
  [ "$r" = 0 ] || [ "$r" = 2 ];
};

# Why a folder will not do; nothing if it will. Whether programs run there is found out by running one.
trouble() {
  mkdir -p "$b" 2>&1 || return;
  if [ -h "$d" ] || [ -h "$b" ]; then echo it is a symbolic link; return; fi;
  if [ -O "$d" ] && [ -O "$b" ]; then :; else echo it belongs to somebody else; return; fi;
  if shut "${d%/*}"; then :; else echo others can write to the folder it is in, or to one above; return; fi;
  chmod 700 "$d" "$b" 2>&1 || return;
  if ours "$d" d && ours "$b" d; then :; else echo others can write to it; return; fi;
  if { echo "exit 0" > "$t"; } 2>&1; then
    { chmod 700 "$t" && "$t"; } 2>/dev/null || echo no program may run there: mounted noexec;
  fi;
  rm -f "$t";
};

# Takes the bytes of a copy that could not be written, so that they are not mistaken for something else later. The file, which is
# of no use any more, grows meanwhile, so that the guard sees that they come.
drain() {
  echo after "$(wc -c < "$t")" of "$size" bytes;
  : >| "$t";
  while [ "$(head -c 16384 | wc -c)" -gt 0 ]; do echo >> "$t"; done;
};

# Ends everything here when no byte of the copy has come for a while: the link may be down for as long as it likes. Ends itself
# when the copy has got its name, or is gone.
guard() {
  last=none; quiet=0;
  while sleep 1 && [ -e "$t" ]; do
    now=$(wc -c 2>/dev/null < "$t");
    if [ "$now" = "$last" ]; then quiet=$((quiet + 1)); else quiet=0; fi;
    last=$now;
    if [ "$quiet" -ge "$stall" ]; then break; fi;
  done;
  if [ -e "$t" ]; then :; else return; fi;
  rm -f "$t";
# The group is ours if we lead it, as under sshd.
  set -- $(cat /proc/$$/stat);
  if [ "$5" = "$$" ]; then kill -s KILL 0; fi;
  kill -s KILL "$$";
};

try() {
  d=$1;
  if [ -z "$d" ]; then return; fi;
# Without the symbolic links on the way: what is compared below is then all that there is.
  if [ -d "${d%/*}" ]; then :; else mkdir -p "${d%/*}" 2>/dev/null; fi;
  p=$(cd -P "${d%/*}/" 2>/dev/null && pwd -P);
  case "$p" in /) d=/${d##*/};; /*) d=$p/${d##*/};; esac;
  b=$d/bin; w=$b/worker-$h; t=$w.$n.tmp;
  if [ -h "$d" ] || [ -h "$b" ]; then say no "$d:" it is a symbolic link; return; fi;
  if [ -z "$fresh" ] && [ -x "$w" ] && shut "${d%/*}" && ours "$d" d && ours "$b" d && ours "$w" - && whole "$w"; then
    become;
  fi;
  why=$(trouble);
  if [ -n "$why" ]; then say no "$d:" $why; return; fi;
# What is no number fails the test like one that is large enough.
  free=$(df -Pk "$d" 2>/dev/null | { read x; read x x x free x; echo "$free"; });
  if [ "$free" -lt "$need" ] 2>/dev/null; then
    say no "$d:" full: "$free" KiB free, "$need" KiB needed; return;
  fi;
  why=$({ : > "$t"; } 2>&1);
  if [ -n "$why" ]; then say no "$d:" $why; return; fi;
  say want "$d";
  guard < /dev/null > /dev/null 2>&1 &
  why=$(head -c "$size" | { { cat >> "$t"; } 2>&1 || drain 2>&1; });
  have=$(wc -c 2>/dev/null < "$t");
  if [ -h "$w" ] || [ -d "$w" ]; then rm -rf "$w"; fi;
  if [ -z "$why" ] && [ "$have" -eq "$size" ] 2>/dev/null; then
    if whole "$t"; then
      if chmod 700 "$t" && mv -f "$t" "$w"; then become; fi;
    else
      why="what is there is not what was sent";
    fi;
  fi;
  rm -f "$t";
# Too little came, and not for want of room: whoever sent it is gone.
  if [ -z "$why" ] && [ "$have" -lt "$size" ] 2>/dev/null; then exit 1; fi;
  say no "$d:" "${why:-it cannot be written}";
};

try "$home";
for place in /var/tmp/qjam-$u /tmp/qjam-$u /dev/shm/qjam-$u; do try "$place"; done;
say nowhere;
